// Grouped GEMM: columns form groups, and each group has its own matrix. MoE layers use it to compute the products of
// all experts in one launch. A slot is one (token, expert) pair of the step. The slots of an expert are consecutive and
// start at a multiple of 8, so kernels process only whole groups of 8 columns. Activations are gathered into slots when
// they are converted (`source`). A GEMM kernel therefore reads its columns as usual. Only the position of a tile and
// its expert come from ColumnTile.
#pragma once

#include <cstdint>

namespace monolith::cuda {

inline constexpr int kSlotMultiple = 8;

// A tile of columns of one expert, at most as many as the kernel's tile width.
struct alignas(16) ColumnTile {
  int32_t first;  // First slot, a multiple of kSlotMultiple.
  int32_t count;  // Number of slots in use; 0 marks an unused tile.
  int32_t expert;
};

// The slots of one step, in device memory and filled on the device. Launches are sized for the maximum number of tiles,
// and blocks of unused tiles exit immediately.
struct ColumnGroups {
  // [n_slots]: the row of x that a slot reads, or -1 for unused slots. Null means that slot i reads row i.
  const int32_t* source;
  const int32_t* first_slot;  // [n_experts]: first slot of each expert, a multiple of kSlotMultiple.
  const int32_t* count;       // [n_experts]: number of slots in use.
  ColumnTile* tiles;          // Array of most_tiles() tiles.
  int n_slots;                // Maximum number of slots, a multiple of kSlotMultiple.
  int n_pairs;                // Number of tokens times experts per token.
  int n_experts;
  mutable int tile_columns;  // Tile width for which the tiles were cut; 0 = not cut yet.
};

// Returns the maximum number of slots that `n_pairs` (token, expert) pairs can fill.
constexpr int64_t most_slots(int64_t n_pairs, int64_t n_experts) {
  const int64_t begun = n_pairs < n_experts ? n_pairs : n_experts;
  return (n_pairs + begun * (kSlotMultiple - 1)) / kSlotMultiple * kSlotMultiple;
}
// Returns the maximum number of tiles of `width` columns.
constexpr int64_t most_tiles(int64_t n_pairs, int64_t n_experts, int64_t width) {
  const int64_t begun = n_pairs < n_experts ? n_pairs : n_experts;
  return begun + (n_pairs - begun) / width;
}

// Returns the number of columns per expert for which the tile width is chosen: the mean for random routing plus two
// standard deviations. A second tile would read the expert's weights again.
constexpr int64_t columns_of_group(int64_t n_pairs, int64_t n_experts) {
  const int64_t mean = (n_pairs + n_experts - 1) / n_experts;
  int64_t deviation = 0;
  while (deviation * deviation < mean) ++deviation;
  return n_pairs <= n_experts ? mean : mean + 2 * deviation;
}

class Runtime;
// Cuts the slots of every expert into tiles of at most `width` columns, unless they are already cut that way.
void cut_tiles(Runtime& runtime, const ColumnGroups& groups, int width);

}  // namespace monolith::cuda
