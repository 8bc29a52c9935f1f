// What the tests of recurrent operations share: rows, slots, and ways to cut a sequence.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "backend/kv_cache.h"
#include "backend/recurrence.h"

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

// Slots of one layer, each filled with what nobody may read.
struct Slots {
  explicit Slots(int64_t floats, int n = 6) : memory(static_cast<size_t>(floats * n), 1e30f), view{memory.data(), floats} {}
  std::vector<float> memory;
  LayerSlots view;
};

// A sequence of `n_rows` in pieces that end where `cuts` say, through slots: each piece goes on from the last one's.
// With `apart` a piece leaves the slot it goes on from alone.
inline std::vector<Segment> pieces(int n_rows, std::vector<int> cuts, bool apart, const int32_t* pages = nullptr) {
  std::vector<Segment> segments;
  int begin = 0;
  int32_t from = kNoSlot;
  cuts.push_back(n_rows);
  for (const int end : cuts) {
    const int32_t to = apart && from == 0 ? 1 : 0;
    segments.push_back({begin, end - begin, begin, pages, from, to});
    from = to;
    begin = end;
  }
  return segments;
}

}  // namespace monolith::testing
