// Splits recurrent state that is stored in blocks of 16 columns per head (DeltaRule, StateSpace) into tasks. A task is
// a range of blocks of one head. It processes all segments in order, because a segment may continue from a slot that an
// earlier one has written. A thread's tasks are adjacent in a slot, so while a kernel processes its last row, it
// prefetches the state that follows its own.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "backend/cpu/ops/kernels.h"
#include "backend/kv_cache.h"
#include "backend/recurrence.h"
#include "base/thread_pool.h"

namespace monolith {

// A task's part of one segment.
struct StateBlocks {
  int64_t head;
  int64_t first_column;  // First of the head's values.
  int n_columns;
  float* state;  // The state in the segment's target slot, into which the initial state has been copied.
};

// Calls fn(StateBlocks, Segment). `n_values` is the number of values per head, `depth` the number of floats of state
// per value.
template <typename Fn>
void for_state_blocks(ThreadPool& pool, const OpKernels& kernels, int64_t n_heads, int64_t n_values, int64_t depth,
                      std::span<const Segment> segments, const LayerSlots& slots, Fn fn) {
  const int64_t block_floats = depth * kLanes, n_blocks = (n_values + kLanes - 1) / kLanes;
  const int64_t together = kernels.delta_blocks, per_head = (n_blocks + together - 1) / together;
  pool.parallel_runs(n_heads * per_head, [&](int64_t piece, int) {
    const int64_t head = piece / per_head, first = piece % per_head * together, column = first * kLanes;
    const int64_t blocks = std::min(together, n_blocks - first), at = (head * n_blocks + first) * block_floats;
    const auto bytes = static_cast<size_t>(blocks * block_floats) * sizeof(float);
    for (const Segment& segment : segments) {
      float* const to = slots.of(segment.state_to) + at;
      if (segment.state_from == kNoSlot)
        std::memset(to, 0, bytes);
      else if (segment.state_from != segment.state_to)
        std::memcpy(to, slots.of(segment.state_from) + at, bytes);
      fn(StateBlocks{head, column, static_cast<int>(std::min(blocks * kLanes, n_values - column)), to}, segment);
    }
  });
}

}  // namespace monolith
