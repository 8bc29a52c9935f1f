// Decodes zlib streams (RFC 1950, 1951) and the PNG images in the test data. Tests only: the code is small, slow and
// not hardened against malicious files.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

namespace monolith::testing {

class Inflate {
 public:
  // Returns nullopt if the data is damaged.
  static std::optional<std::vector<uint8_t>> zlib(std::span<const uint8_t> bytes);

 private:
  struct Codes {
    std::array<int, 16> count{};
    std::vector<int> symbols;
    explicit Codes(std::span<const uint8_t> lengths);
  };

  explicit Inflate(std::span<const uint8_t> in) : in_(in) {}

  int bits(int n);
  int symbol(const Codes& codes);

  void stored();
  void block(const Codes& literals, const Codes& distances);
  void dynamic();
  bool run();

  std::span<const uint8_t> in_;
  size_t at_ = 0;
  bool failed_ = false;
  std::vector<uint8_t> out_;
};

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

// Decodes a PNG image. Supports non-interlaced images with 8 bits per channel: gray, gray with alpha, RGB, RGB with
// alpha, and palette. The alpha channel is dropped.
std::optional<Picture> read_png(std::span<const uint8_t> file);

}  // namespace monolith::testing
