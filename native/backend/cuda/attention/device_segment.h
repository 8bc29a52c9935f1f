// A Segment as kernels see it.
#pragma once

#include <cstdint>

#include "backend/kv_cache.h"

namespace monolith::cuda {

struct DeviceSegment {
  int32_t first_row;
  int32_t n_tokens;
  int32_t first_position;
  int32_t first_page;   // where its page table begins in `pages`: position p is on pages[first_page + p / kPageTokens]
  // Slots of recurrent state, as Segment has them; state_to kNoSlot: it is not kept (padding).
  int32_t state_from = kNoSlot, state_to = kNoSlot;
  int32_t chain_next = -1;    // the segment that is carried on after this one, by the same block; -1: none
  int32_t chain_leads = 1;    // 0: another one's chain leads here
};

}  // namespace monolith::cuda
