#include "backend/cpu/matmul/tiles.h"

#include <algorithm>
#include <cassert>

#include "backend/cpu/matmul/matmul.h"

namespace monolith {
namespace {

// Maximum bytes of expanded weights per group. They must stay in the L2 cache, together with the rows, the outputs and
// the next group's weights. The L2 cache of CPUs with AMX has 2 MiB per core, which two hardware threads share.
constexpr int64_t kTileGroupBytes = 768 * 1024;
// Like kTileGroupBytes, but for up to kFewRows rows. With few rows, the next group's weights take up a larger part of
// the cache, and smaller groups cost little because each group reads only a few rows. Measured on Emerald Rapids with
// 5,632 columns and 32 rows: 1.2 times as fast as with 1,200 KiB.
constexpr int64_t kSmallGroupBytes = 384 * 1024;
constexpr int kFewRows = 64;
// Maximum panels per group: 16 is as fast as 32 (measured).
constexpr int64_t kMaxGroupPanels = 16;
constexpr int kMaxRows = 2 * kTileRows;  // Maximum of TileKernels::max_rows.
constexpr size_t kSumBytes = kMaxGroupPanels * kMaxRows * kPanelRows * sizeof(float);

// Sizes of the parts of an expanded panel, in bytes.
struct ExpandedSize {
  int64_t weights, steps, floors;
  ExpandedSize(const TileKernels& kernels, TensorType type, int64_t cols) {
    if (kernels.lines == ActivationKind::kBf16) {
      weights = (cols + 31) / 32 * 32 * kPanelRows * 2;
      steps = floors = 0;
      return;
    }
    const PanelForm form = panel_form(type);
    weights = cols * kPanelRows;
    steps = cols / form.step * kPanelRows * static_cast<int64_t>(sizeof(float));
    floors = form.minima ? steps : 0;
  }
  int64_t all() const { return weights + steps + floors; }
};

// Returns the largest ExpandedSize::all() of all types and kernels: two bytes per weight.
size_t max_expanded_bytes(int64_t max_cols) { return static_cast<size_t>((max_cols + 31) / 32 * 32) * kPanelRows * 2; }

}  // namespace

int64_t panels_per_tile_group(const TileKernels& kernels, const PanelLayout& layout, int n_rows) {
  const ExpandedSize size(kernels, layout.type, layout.cols);
  const int64_t bytes = n_rows <= kFewRows ? kSmallGroupBytes : kTileGroupBytes;
  const int64_t n = std::clamp<int64_t>(bytes / size.all(), 1, kMaxGroupPanels);
  return n > 1 ? n & ~int64_t{1} : n;
}

size_t tile_scratch_bytes(int64_t max_cols) {
  return kTileResultBytes + kSumBytes + std::max(static_cast<size_t>(kTileGroupBytes), max_expanded_bytes(max_cols));
}

void multiply_tiles(const TileKernels& kernels, const TiledProduct& product, std::byte* scratch) {
  const PanelLayout& layout = product.matrix.layout();
  const ExpandedSize size(kernels, layout.type, layout.cols);
  assert(size.weights == static_cast<int64_t>(layout.records) || layout.type != kernels.in_place.type);
  const bool in_place =
      layout.type == kernels.in_place.type && product.last_tile - product.first_tile <= kernels.in_place.max_tiles;
  const auto expand = in_place ? kernels.in_place.expand : kernels.expand[panel_type_index(layout.type)];
  const auto multiply = in_place ? kernels.in_place.multiply : kernels.multiply[tile_form(panel_form(layout.type))];
  const int64_t n_panels = product.n_panels, blocks = (layout.cols + 31) / 32;
  assert(n_panels <= kMaxGroupPanels);
  std::byte* const weights = scratch + kTileResultBytes + kSumBytes;
  std::byte *const steps = weights + n_panels * size.weights, *const floors = steps + n_panels * size.steps;
  bool small_steps = true;
  for (int64_t i = 0; i < n_panels; ++i) {
    PanelTile panel{};
    panel.panel = product.matrix.panel(product.first_panel + i);
    panel.block_scales = product.matrix.block_scales(product.first_panel + i);
    panel.layout = &layout;
    const ExpandedPanel expanded{weights + i * size.weights, reinterpret_cast<float*>(steps + i * size.steps),
                                 reinterpret_cast<float*>(floors + i * size.floors)};
    if (!expand(panel, expanded)) small_steps = false;
  }

  const int64_t blocks_per_tile = n_panels * blocks, line_bytes = static_cast<int64_t>(kLineBytes);
  const int64_t n_blocks = (product.last_tile - product.first_tile) * blocks_per_tile;
  const int64_t next_lines = (product.next_bytes / line_bytes + n_blocks - 1) / n_blocks;
  int64_t prefetched = 0;
  for (int tile = product.first_tile; tile < product.last_tile; ++tile) {
    const int first_row = product.tiles.first_row(tile);
    const bool prefetches = prefetched < product.next_bytes;
    multiply({.weights = in_place ? product.matrix.panel(product.first_panel) : weights,
              .steps = reinterpret_cast<const float*>(steps),
              .floors = reinterpret_cast<const float*>(floors),
              .cols = layout.cols,
              .n_panels = product.n_panels,
              .small_steps = small_steps,
              .lines = product.lines + static_cast<size_t>(first_row) * product.row_bytes,
              .n_rows = product.tiles.rows(tile),
              .sums = reinterpret_cast<float*>(scratch + kTileResultBytes),
              .results = scratch,
              .out = product.out + first_row * product.out_stride,
              .out_stride = product.out_stride,
              .lanes = product.lanes,
              .factors = product.matrix.factors(product.first_panel),
              .bias = product.bias,
              .add_to_out = product.add_to_out,
              .next_weights = prefetches ? product.next_weights + prefetched : nullptr,
              .next_lines = prefetches ? static_cast<int>(next_lines) : 0});
    prefetched += next_lines * line_bytes * blocks_per_tile;
  }
}

}  // namespace monolith
