// The device representation of a Segment.
#pragma once

#include <cstdint>

#include "backend/kv_cache.h"

namespace monolith::cuda {

struct DeviceSegment {
  int32_t first_row;
  int32_t n_tokens;
  int32_t first_position;
  // Start of the segment's page table in `pages`: position p is on page pages[first_page + p / kPageTokens].
  int32_t first_page;
  // Slots of the recurrent state, as in Segment. With state_to == kNoSlot the state is not stored (padding).
  int32_t state_from = kNoSlot, state_to = kNoSlot;
  // Index of the segment that the same block processes after this one and that continues this segment's state; -1 if
  // there is none.
  int32_t chain_next = -1;
  int32_t chain_leads = 1;  // 1 if this segment starts a chain; 0 if another segment's chain_next refers to it.
  // As in Segment: 0 for causal attention, or the end of the positions visible to each of its tokens.
  int32_t seen_end = 0;
  // Index in `pages` at which the RoPE positions start, three per token (M-RoPE); -1 if each token is rotated by its
  // own position.
  int32_t rope_first = -1;

  // Returns the last position visible to any token of the segment up to the token at `position`.
  constexpr int32_t last_seen(int32_t position) const { return seen_end > position + 1 ? seen_end - 1 : position; }
  // Returns whether any token attends to positions after its own (bidirectional attention).
  constexpr bool sees_ahead() const { return seen_end > first_position + 1; }
};

}  // namespace monolith::cuda
