// A Segment as kernels see it.
#pragma once

#include <cstdint>

#include "backend/kv_cache.h"

namespace monolith::cuda {

struct DeviceSegment {
  int32_t first_row;
  int32_t n_tokens;
  int32_t first_position;
  int32_t first_page;  // where its page table begins in `pages`: position p is on pages[first_page + p / kPageTokens]
  // Slots of recurrent state, as Segment has them; state_to kNoSlot: it is not kept (padding).
  int32_t state_from = kNoSlot, state_to = kNoSlot;
  int32_t chain_next = -1;  // the segment that is carried on after this one, by the same block; -1: none
  int32_t chain_leads = 1;  // 0: another one's chain leads here
  int32_t seen_end = 0;     // as Segment has it: 0, or the end of the positions that each of its rows sees
  int32_t rope_first = -1;  // where in `pages` three numbers of each row begin that it is turned by; -1: its position

  // The last position that its rows up to the one at `position` see.
  constexpr int32_t last_seen(int32_t position) const { return seen_end > position + 1 ? seen_end - 1 : position; }
  // Some row sees beyond itself.
  constexpr bool sees_ahead() const { return seen_end > first_position + 1; }
};

}  // namespace monolith::cuda
