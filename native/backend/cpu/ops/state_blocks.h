// How recurrent state that lies in blocks of 16 columns a head (DeltaRule, StateSpace) is handed to threads. A piece is
// some blocks of a head, and takes all segments in their order: what one leaves in a slot another may go on from.
// A thread's pieces follow each other in a slot: kernels ask for what lies behind theirs while they write their last row.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "backend/cpu/ops/kernels.h"
#include "backend/kv_cache.h"
#include "backend/recurrence.h"
#include "base/thread_pool.h"

namespace monolith {

// A piece as it goes through one segment.
struct StateBlocks {
  int64_t head;
  int64_t first_column;  // of the head's values
  int n_columns;
  float* state;  // behind the segment, what lay before it having been copied there
};

// `n_values`: of a head; `depth`: floats that each of them keeps. fn(StateBlocks, Segment).
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
