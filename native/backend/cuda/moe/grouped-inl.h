// Code shared by the kernels that assign expert slots: distribution of experts over the threads of one block, and
// prefix sums over threads. Included by *.cu files only.
#pragma once

#include "backend/cuda/device/launch.h"
#include "backend/cuda/moe/grouped.h"

namespace monolith::cuda {

struct Counts {
  int32_t slots, tiles;
};
struct BlockCounts {
  Counts of_warp[32];
};

// The range of experts that this thread processes.
struct Run {
  int first, last;
};
template <int kThreads>
MONOLITH_DEVICE Run run_of(int n_experts) {
  const int each = (n_experts + kThreads - 1) / kThreads, first = static_cast<int>(threadIdx.x) * each;
  return {first < n_experts ? first : n_experts, first + each < n_experts ? first + each : n_experts};
}

// Returns the exclusive prefix sum of `own` over the threads; `total` receives the sum over all threads. All threads of
// the block must call it.
template <int kThreads>
MONOLITH_DEVICE Counts counts_before(const Counts& own, Counts& total, BlockCounts& shared) {
  constexpr int kWarps = kThreads / kWarp;
  Counts sum = own;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int32_t slots = __shfl_up_sync(kWholeWarp, sum.slots, distance);
    const int32_t tiles = __shfl_up_sync(kWholeWarp, sum.tiles, distance);
    if (lane_id() >= distance) sum = {sum.slots + slots, sum.tiles + tiles};
  }
  if (lane_id() == kWarp - 1) shared.of_warp[warp_id()] = sum;
  __syncthreads();
  Counts before{sum.slots - own.slots, sum.tiles - own.tiles};
  total = {0, 0};
  for (int warp = 0; warp < kWarps; ++warp) {
    const Counts other = shared.of_warp[warp];
    if (warp < warp_id()) before = {before.slots + other.slots, before.tiles + other.tiles};
    total = {total.slots + other.slots, total.tiles + other.tiles};
  }
  return before;
}

MONOLITH_DEVICE int32_t tiles_for(int32_t count, int width) { return (count + width - 1) / width; }
MONOLITH_DEVICE int32_t slots_for(int32_t count) { return (count + kSlotMultiple - 1) / kSlotMultiple * kSlotMultiple; }

// Writes the tiles of one expert and returns their number.
MONOLITH_DEVICE int32_t put_tiles(ColumnTile* to, int32_t first_slot, int32_t count, int expert, int width) {
  for (int32_t at = 0; at < count; at += width)
    *to++ = {first_slot + at, count - at < width ? count - at : width, expert};
  return tiles_for(count, width);
}

}  // namespace monolith::cuda
