// Matmul with AMX tiles (Intel SDM, volume 1, chapter 18), used instead of the panel kernels when there are many rows.
//
// A tile register holds up to 16 rows of 64 bytes. TDPBSSD and TDPBF16PS multiply 16 rows of activations by a panel (16
// lanes), up to 64 bytes of k at a time, and accumulate in a third tile. A thread first unpacks a group of panels in
// its own scratch memory, one value per byte or bfloat16, in the order that panels.h gives for Q8_0 and BF16. It then
// multiplies the group by all rows while it is in the L2 cache. With few rows, Q8_0 weights are not unpacked; neither
// are BF16 weights with any number of rows (InPlaceKernels). There are two sets of kernels:
//
// - kAmxTiles expands to signed bytes, and its results have the same bits as the results of the panel kernels. The
//   integer sums of each block of 32 k are therefore stored to memory, and vector instructions scale and accumulate
//   them. This step is the bottleneck, not the tile unit: while tile instructions are in flight, only one of the two
//   512-bit ports executes floating-point instructions (measured on Granite Rapids), so each of them costs at least 16
//   cycles per block of 16 rows and 16 lanes. Integer additions still use both ports.
// - kAmxFastTiles, for Arithmetic::kFast, expands to bfloat16 (to nearest, ties away from zero), rounds the activations
//   to bfloat16 (ties to even), and accumulates in the tile unit. panels.h does not describe its arithmetic: TDPBF16PS
//   accumulates even and odd k separately, adds the two sums, and adds the result to the tile. The order does not
//   depend on the number of rows.
//
// If a core's other thread is busy, tile loads and products hardly overlap (measured on Emerald Rapids). The order of
// instructions then matters: each tile is loaded right after its last use, and as few tiles as possible are used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/matmul/kernels.h"
#include "backend/cpu/matmul/row_tiles.h"

namespace monolith {

class CpuMatrix;

// One panel, expanded.
struct ExpandedPanel {
  std::byte* weights;  // kInt8: shape [k/4][lane][4] int8_t. kBf16: shape [k/2][lane][2] bfloat16, k padded to 32.
  float* steps;        // kInt8: shape [k/step][lane], where `step` is PanelForm::step.
  float* floors;       // Likewise, if the type has minima.
};

// A group of adjacent panels times a range of rows.
struct TileGroup {
  const std::byte* weights;  // As in ExpandedPanel, shape [panel][...]. So are steps and floors.
  const float *steps, *floors;
  int64_t cols;
  int n_panels;
  bool small_steps;        // Whether expand() returned true for every panel.
  const std::byte* lines;  // Packed rows, shape [line][row]. Up to three lines after the last may be read.
  int n_rows;              // 1 to TileKernels::max_rows.
  float* sums;             // Scratch memory. Shape [panel][TileKernels::max_rows][lane].
  std::byte* results;      // Scratch memory of kTileResultBytes, aligned to 64 bytes.
  float* out;              // The output of the first row and lane.
  int64_t out_stride;
  int lanes;             // Lanes of all panels, without the padding of the last one.
  const float* factors;  // Factors of the lanes, or null.
  const float* bias;     // Bias of the lanes, or null.
  bool add_to_out;       // Add to the old outputs.
  // Weights of the next group. For each panel and block of 32 k, next_lines cache lines of these weights are prefetched
  // into L2.
  const std::byte* next_weights;
  int next_lines;
};
inline constexpr size_t kTileResultBytes = 4 * kTileRows * kLineBytes;

// Kernels for weights of a type that the tile unit can load directly from the matrix, in the stored layout. With few
// rows, the time saved by not copying the weights outweighs the slower multiplication.
struct InPlaceKernels {
  TensorType type;
  int max_tiles;                                                    // Maximum number of tiles of rows.
  bool (*expand)(const PanelTile& panel, const ExpandedPanel& to);  // Writes only steps.
  void (*multiply)(const TileGroup& group);
};

struct TileKernels {
  ActivationKind lines;  // kInt8 or kBf16.
  int max_rows;          // Rows that multiply() takes at a time.
  // Minimum number of rows for which these kernels are faster than the panel kernels, for weights of this form. The
  // fast kernels have MatmulKernels::min_fast_rows instead.
  int (*min_rows)(PanelForm form);
  // Expands a panel. If `lines` is kInt8, returns whether all steps are below 2^100 in magnitude, which the fast
  // scaling requires. An entry is null for types that are not supported.
  bool (*expand[kPanelTypes])(const PanelTile& panel, const ExpandedPanel& to);
  // Indexed by tile_form().
  void (*multiply[4])(const TileGroup& group);
  InPlaceKernels in_place;
};
constexpr int tile_form(PanelForm form) { return (form.step == 16 ? 2 : 0) + (form.minima ? 1 : 0); }

// Adjacent panels of one matrix, and the rows by which multiply_tiles() multiplies them.
struct TiledProduct {
  const CpuMatrix& matrix;
  int64_t first_panel;
  int n_panels, lanes;     // `lanes` is the number of rows of the matrix in these panels.
  const std::byte* lines;  // Packed rows.
  size_t row_bytes;        // Bytes of packed lines per row.
  Tiles tiles;
  int first_tile, last_tile;
  float* out;  // The output of row 0 and the first lane.
  int64_t out_stride;
  const float* bias;  // Bias of the first lane, or null.
  bool add_to_out;
  const std::byte* next_weights;  // Weights to prefetch meanwhile, or null.
  int64_t next_bytes;
};

// Runs the product on the calling thread, which owns `scratch` (tile_scratch_bytes()). n_panels is at most
// panels_per_tile_group().
void multiply_tiles(const TileKernels& kernels, const TiledProduct& product, std::byte* scratch);

// Number of panels of a matrix with this layout that are expanded together in a product with n_rows rows.
int64_t panels_per_tile_group(const TileKernels& kernels, const PanelLayout& layout, int n_rows);
// Bytes of scratch memory that multiply_tiles() needs for matrices of up to max_cols columns.
size_t tile_scratch_bytes(int64_t max_cols);

}  // namespace monolith
