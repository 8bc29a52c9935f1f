// A block of 16 columns of a head's state in the registers of one warp (DeltaRule::value_blocks(),
// StateSpace::blocks()), and sums over the state dimensions, which eight lanes share. Lane 4 s + c holds columns 4 c ..
// 4 c + 3 of dimensions s, s + 8, s + 16 ..., so memory is read and written in runs of 512 bytes. Device code.
#pragma once

#include "backend/cuda/attention/device_segment.h"
#include "backend/cuda/device/language.h"
#include "backend/recurrence.h"

namespace monolith::cuda {

inline constexpr int kBlockColumns = 16;
inline constexpr int kSlices = 8;  // Lanes that share the dimensions of a column.

// `kEach` is the number of dimensions per lane.
template <int kEach>
struct StateBlock {
  static constexpr int dims = kSlices * kEach;  // Maximum state dimension.
  Floats4 at[kEach];

  MONOLITH_DEVICE static bool has(int j, int dim) { return lane_id() / 4 + kSlices * j < dim; }
  MONOLITH_DEVICE void clear() {
    MONOLITH_UNROLL
    for (int j = 0; j < kEach; ++j) at[j] = {0, 0, 0, 0};
  }
  MONOLITH_DEVICE void load(const float* from, int dim) {
    const auto* const quads = reinterpret_cast<const Floats4*>(from) + lane_id();
    MONOLITH_UNROLL
    for (int j = 0; j < kEach; ++j) at[j] = has(j, dim) ? quads[kWarp * j] : Floats4{0, 0, 0, 0};
  }
  MONOLITH_DEVICE void store(float* to, int dim) const {
    auto* const quads = reinterpret_cast<Floats4*>(to) + lane_id();
    MONOLITH_UNROLL
    for (int j = 0; j < kEach; ++j)
      if (has(j, dim)) quads[kWarp * j] = at[j];
  }
};

MONOLITH_DEVICE Floats4 times(const Floats4& x, float factor) {
  return {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
}
// Returns x + factor * y.
MONOLITH_DEVICE Floats4 plus_times(const Floats4& x, float factor, const Floats4& y) {
  return {fmaf(factor, y.x, x.x), fmaf(factor, y.y, x.y), fmaf(factor, y.z, x.z), fmaf(factor, y.w, x.w)};
}
MONOLITH_DEVICE Floats4 plus(const Floats4& x, const Floats4& y) {
  return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

// Sums over the eight slices of a group of four columns, for two quads `a` and `b` at a time. Each lane receives one
// value, for the column given by sum_column(): lanes whose index has bit 4 set receive a value of `b`, all others a
// value of `a`.
MONOLITH_DEVICE float halved(float kept, float given, int distance) {
  return kept + __shfl_xor_sync(kWholeWarp, given, distance);
}
MONOLITH_DEVICE int sum_column() { return lane_id() / 4 % 4; }
MONOLITH_DEVICE float sum_slices(const Floats4& a, const Floats4& b) {
  const bool fourth = (lane_id() & 16) != 0, third = (lane_id() & 8) != 0, second = (lane_id() & 4) != 0;
  const float x = halved(fourth ? b.x : a.x, fourth ? a.x : b.x, 16);
  const float y = halved(fourth ? b.y : a.y, fourth ? a.y : b.y, 16);
  const float z = halved(fourth ? b.z : a.z, fourth ? a.z : b.z, 16);
  const float w = halved(fourth ? b.w : a.w, fourth ? a.w : b.w, 16);
  const float low = halved(third ? z : x, third ? x : z, 8), high = halved(third ? w : y, third ? y : w, 8);
  return halved(second ? high : low, second ? low : high, 4);
}
// Sums a single quad over the eight slices. Every lane receives the sum of one of the quad's columns.
MONOLITH_DEVICE float sum_slices(const Floats4& a) {
  const bool third = (lane_id() & 8) != 0, second = (lane_id() & 4) != 0;
  const float x = halved(third ? a.z : a.x, third ? a.x : a.z, 8), y = halved(third ? a.w : a.y, third ? a.y : a.w, 8);
  const float sum = halved(second ? y : x, second ? x : y, 4);
  return sum + __shfl_xor_sync(kWholeWarp, sum, 16);
}

// Iterates over the segments of a chain and tracks which state the registers hold. Every thread has its own copy,
// identical within a block.
struct ChainWalk {
  const DeviceSegment* segments;
  DeviceSegment own;
  int32_t held = kNoSlot;  // The slot whose state is in the registers.
  bool more = true;

  MONOLITH_DEVICE ChainWalk(const DeviceSegment* all, int first) : segments(all), own(all[first]) {
    more = own.chain_leads != 0;
  }
  // Advances to the next segment. The state of the current segment must have been stored.
  MONOLITH_DEVICE void advance() {
    held = own.state_to;
    more = own.chain_next >= 0;
    if (more) own = segments[own.chain_next];
  }
  // Returns whether the registers hold the state from which this segment continues.
  MONOLITH_DEVICE bool holds() const { return held != kNoSlot && held == own.state_from; }
};

}  // namespace monolith::cuda
