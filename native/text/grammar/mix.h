// Mixes a number into a hash. Used by the hash tables of interned objects.
#pragma once

#include <cstdint>

namespace monolith::grammar {

inline uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}

}  // namespace monolith::grammar
