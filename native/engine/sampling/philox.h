// Philox4x32-10, a counter-based random number generator (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011). Its output is a pure function of key and counter, so a sequence's random numbers depend only
// on its seed, stream and position, not on what else is running.
#pragma once

#include <array>
#include <cstdint>

namespace monolith {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds (section 3.3 of the paper), with the constants of the reference implementation.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Returns the 64 random bits for the token at `position` of a generation with `seed` and `stream`. Two different
// combinations of seed, stream and position never share both key and counter.
constexpr uint64_t random_bits(uint64_t seed, uint32_t stream, uint64_t position) {
  const PhiloxCounter bits =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace monolith
