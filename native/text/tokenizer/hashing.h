// Hashing for the tokenizer's flat hash tables. Hashes are seeded with a random number per process, so that a file with
// colliding keys cannot be crafted.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace monolith {

// A random number that stays the same until the process exits.
uint64_t hash_seed();

namespace hashing {

__extension__ using Uint128 = unsigned __int128;

// XOR of the two halves of the 64x64-bit product, so that every input bit affects every output bit.
inline uint64_t mix(uint64_t a, uint64_t b) {
  const Uint128 product = static_cast<Uint128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline constexpr uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD6E8FEB86659FD93;

inline uint64_t load(const char* p, size_t n) {  // n <= 8.
  uint64_t word = 0;
  if (n >= 4) {  // Two loads that overlap in the middle.
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    word = low | static_cast<uint64_t>(high) << 32;
  } else if (n > 0) {
    const auto byte = [=](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])}; };
    word = byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
  }
  return word;
}

inline uint64_t of_bytes(std::string_view text, uint64_t seed) {
  uint64_t state = seed ^ text.size() * kOdd1;
  const char* p = text.data();
  size_t n = text.size();
  for (; n > 8; p += 8, n -= 8) state = mix(state ^ load(p, 8), kOdd2);
  return mix(state ^ load(p, n), kOdd1 ^ seed);
}

inline uint64_t of_integer(uint64_t value, uint64_t seed) { return mix(value ^ seed, kOdd1); }

}  // namespace hashing
}  // namespace monolith
