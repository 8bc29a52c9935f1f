// Incremental SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/content_hash.h"

namespace monolith {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  void add(std::span<const std::byte> bytes);
  void add_number(uint64_t number);  // Adds the number's eight bytes, least significant byte first.
  // Returns the digest. Nothing may be added after this call.
  Digest finish();
  ContentHash content();  // Like finish(), but returns only the first 128 bits.
  static std::string hex(const Digest& digest);
  static std::string hex_of(std::span<const std::byte> bytes);

 private:
  void block(const std::byte* data);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> held_;
  size_t n_held_ = 0;
  uint64_t length_ = 0;  // Bytes added so far.
};

}  // namespace monolith
