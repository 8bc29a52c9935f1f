// Matmul with matrices whose rows have factors. The kernel's result is multiplied by the factors before the bias and
// the old output are added. Any thread.
#pragma once

#include <cassert>

#include "backend/cpu/matmul/kernels.h"

namespace monolith {

// Runs `kernel` on `tile`. `factors` are those of the tile's lanes, or null.
inline void run_tile(StripKernel kernel, const StripTile& tile, const float* factors) {
  if (factors == nullptr) return kernel(tile);
  constexpr int kMaxRows = 12, kMaxLanes = 2 * kStripRows;  // Maximum over all instruction sets.
  assert(tile.n_rows <= kMaxRows && tile.lanes <= kMaxLanes);
  float products[kMaxRows * kMaxLanes];
  StripTile alone = tile;
  alone.out = products;
  alone.out_stride = kMaxLanes;
  alone.bias = nullptr;
  alone.add_to_out = false;
  kernel(alone);
  for (int row = 0; row < tile.n_rows; ++row) {
    float* const out = tile.out + row * tile.out_stride;
    for (int lane = 0; lane < tile.lanes; ++lane) {
      float value = products[row * kMaxLanes + lane] * factors[lane];
      if (tile.bias != nullptr) value = value + tile.bias[lane];
      out[lane] = tile.add_to_out ? out[lane] + value : value;
    }
  }
}

}  // namespace monolith
