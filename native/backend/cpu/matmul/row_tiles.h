// Splits the rows of a matmul into tiles. A tile holds the rows that one kernel call covers. There are as few tiles as
// possible, of nearly equal size. Plain values; any thread.
#pragma once

#include <algorithm>

namespace monolith {

struct Tiles {
  int n_rows, count, base, extra;

  // Requires rows >= 1 and max_tile_rows >= 1.
  Tiles(int rows, int max_tile_rows) : n_rows(rows) {
    count = (rows + max_tile_rows - 1) / max_tile_rows;
    base = rows / count;
    extra = rows % count;
  }
  int first_row(int tile) const { return tile * base + std::min(tile, extra); }
  int rows(int tile) const { return base + (tile < extra); }
  int tile_of(int row) const {
    const int in_larger = extra * (base + 1);
    return row < in_larger ? row / (base + 1) : extra + (row - in_larger) / base;
  }
};

}  // namespace monolith
