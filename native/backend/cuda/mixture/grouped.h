// Columns of a product in groups, each with a matrix of its own: how a mixture of experts computes all its experts'
// products in one launch. A slot is one (row, expert) pair of the step; an expert's slots are consecutive and begin at
// a multiple of 8, so that kernels see whole groups of 8 columns. Activations are gathered into slots when they are
// converted (`source`), so a product's kernel reads its columns as it always does, and takes from ColumnTile only where
// a tile begins and whose matrix it multiplies.
#pragma once

#include <cstdint>

namespace monolith::cuda {

inline constexpr int kSlotMultiple = 8;

// A tile of columns: at most as many as the kernel's tile has, of one expert.
struct alignas(16) ColumnTile {
  int32_t first;  // slot, a multiple of kSlotMultiple
  int32_t count;  // slots in use from there on; 0: no tile
  int32_t expert;
};

// Slots of one step. Device memory, filled on the device; a launch is as large as there could be tiles, and blocks
// whose tile is none end at once.
struct ColumnGroups {
  const int32_t* source;      // [n_slots]: the row of x that a slot reads, -1: none; null: row i is slot i's
  const int32_t* first_slot;  // [n_experts]: where an expert's slots begin, multiples of kSlotMultiple
  const int32_t* count;       // [n_experts]: how many are in use
  ColumnTile* tiles;          // most_tiles() of them
  int n_slots;                // the most there can be, a multiple of kSlotMultiple
  int n_pairs;                // rows x experts used of each
  int n_experts;
  mutable int tile_columns;  // that the tiles are cut for; 0: not yet
};

// The most slots that `n_pairs` pairs of `n_experts` experts can fill.
constexpr int64_t most_slots(int64_t n_pairs, int64_t n_experts) {
  const int64_t begun = n_pairs < n_experts ? n_pairs : n_experts;
  return (n_pairs + begun * (kSlotMultiple - 1)) / kSlotMultiple * kSlotMultiple;
}
// The most tiles of `width` columns.
constexpr int64_t most_tiles(int64_t n_pairs, int64_t n_experts, int64_t width) {
  const int64_t begun = n_pairs < n_experts ? n_pairs : n_experts;
  return begun + (n_pairs - begun) / width;
}

// Columns that tiles are sized for: what an expert has if rows choose at random, and two deviations more, as a second
// tile costs its expert's weights once more.
constexpr int64_t columns_of_group(int64_t n_pairs, int64_t n_experts) {
  const int64_t mean = (n_pairs + n_experts - 1) / n_experts;
  int64_t deviation = 0;
  while (deviation * deviation < mean) ++deviation;
  return n_pairs <= n_experts ? mean : mean + 2 * deviation;
}

class Runtime;
// Cuts every expert's slots into tiles of at most `width` columns, where they are not.
void cut_tiles(Runtime& runtime, const ColumnGroups& groups, int width);

}  // namespace monolith::cuda
