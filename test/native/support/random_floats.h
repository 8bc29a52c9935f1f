// Random inputs for kernels, and bitwise comparison of results. For tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace monolith::testing {

inline std::vector<float> random_floats(size_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace monolith::testing
