// Splits the rows of a matmul into tiles, and runs a kernel on a tile. Safe to call from any thread.
#pragma once

#include <algorithm>
#include <cassert>

#include "backend/cpu/matmul/kernels.h"

namespace monolith {

// Splits the rows of a matmul into tiles. A tile consists of the rows that one kernel call covers. There are as few
// tiles as possible. kEqual: tiles of nearly equal size. kFull: all tiles but the last have max_tile_rows rows.
struct Tiles {
  int n_rows, count, base, extra;
  enum Sizes : uint8_t { kEqual, kFull };

  // Requires rows >= 1 and max_tile_rows >= 1.
  Tiles(int rows, int max_tile_rows, Sizes sizes = kEqual) : n_rows(rows) {
    count = (rows + max_tile_rows - 1) / max_tile_rows;
    base = sizes == kFull ? max_tile_rows : rows / count;
    extra = sizes == kFull ? 0 : rows % count;
  }
  int first_row(int tile) const { return tile * base + std::min(tile, extra); }
  int rows(int tile) const { return std::min(base + (tile < extra), n_rows - first_row(tile)); }
  int tile_of(int row) const {
    const int in_larger = extra * (base + 1);
    return row < in_larger ? row / (base + 1) : extra + (row - in_larger) / base;
  }
};

// Runs `kernel` on `tile`. If the matrix has a factor per row, `factors` points to the factors of the tile's lanes;
// otherwise it is null. The kernel's result is multiplied by the factors before the bias and the old output are added.
inline void run_tile(PanelKernel kernel, const PanelTile& tile, const float* factors) {
  if (factors == nullptr) return kernel(tile);
  constexpr int kMaxRows = 12, kMaxLanes = 2 * kPanelRows;  // Maximum over all instruction sets.
  assert(tile.n_rows <= kMaxRows && tile.lanes <= kMaxLanes);
  float products[kMaxRows * kMaxLanes];
  PanelTile alone = tile;
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
