// A Segment as kernels see it.
#pragma once

#include <cstdint>

namespace monolith::cuda {

struct DeviceSegment {
  int32_t first_row;
  int32_t n_tokens;
  int32_t first_position;
  int32_t first_page;   // where its page table begins in `pages`: position p is on pages[first_page + p / kPageTokens]
};

}  // namespace monolith::cuda
