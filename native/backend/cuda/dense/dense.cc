#include "backend/cuda/dense/dense.h"

#include <algorithm>

#include "backend/cuda/dense/fp8.h"

namespace monolith::cuda {

size_t dense_bytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>(dense_tiles(rows) * kDenseTileRows * dense_blocks(cols) * kDenseBlockK) * sizeof(uint16_t);
}

namespace {
size_t fp8_code_bytes(int64_t rows, int64_t cols) { return dense_bytes(rows, cols) / 2; }
size_t fp8_scale_bytes(int64_t rows) { return static_cast<size_t>(dense_tiles(rows) * kDenseTileRows) * sizeof(float); }
constexpr size_t kRefusedBytes = 16;
}  // namespace

size_t fp8_bytes(int64_t rows, int64_t cols) {
  return fp8_code_bytes(rows, cols) + fp8_scale_bytes(rows) + kRefusedBytes;
}

Fp8Matrix fp8_matrix(const void* memory, int64_t rows, int64_t cols) {
  auto* const codes = static_cast<unsigned char*>(const_cast<void*>(memory));
  unsigned char* const scales = codes + fp8_code_bytes(rows, cols);
  return {codes, reinterpret_cast<float*>(scales), reinterpret_cast<uint32_t*>(scales + fp8_scale_bytes(rows))};
}

int dense_segments(int64_t rows, int64_t cols) {
  // The number of segments is large enough to give each multiprocessor of a large GPU a tile of 64 rows, as long as
  // each segment has at least 512 values of k.
  constexpr int64_t kUnits = 192, kShortest = 512;
  constexpr int kMax = 8;
  const int64_t tiles = (rows + 63) / 64;
  int segments = 1;
  while (segments < kMax && tiles * segments < kUnits && cols >= 2 * segments * kShortest) segments *= 2;
  return segments;
}

int64_t column_tiles(const DenseShape& shape, int width) {
  return shape.experts > 0 ? most_tiles(shape.columns, shape.experts, width) : (shape.columns + width - 1) / width;
}

namespace {
int64_t row_units(const DenseShape& shape, const DensePlan& plan) {
  int64_t units = 0;
  for (const DenseRows& matrix : shape.matrices) units += row_tiles(matrix, plan) * (plan.split ? matrix.segments : 1);
  return units;
}
}  // namespace

// In kFew, a block of eight warps handles kFewWarps / segments tiles.
int64_t row_tiles(const DenseRows& matrix, const DensePlan& plan) {
  const int64_t rows =
      plan.kernel == DenseKernel::kFew ? plan.tile_rows * (kFewWarps / matrix.segments) : plan.tile_rows;
  return (matrix.rows + rows - 1) / rows;
}

int64_t unit_count(const DenseShape& shape, const DensePlan& plan) {
  return row_units(shape, plan) * column_tiles(shape, plan.tile_columns);
}

namespace {
bool can_split(const DenseShape& shape, const DensePlan& plan) {
  const int64_t units = unit_count(shape, plan);
  return std::ranges::any_of(shape.matrices, [](const DenseRows& matrix) { return matrix.segments > 1; }) &&
         units <= kDenseMostCounters && units * plan.tile_rows * plan.tile_columns <= kDenseMostSums;
}

// Chooses the tile width for many columns on Hopper, where a multiprocessor runs one block at a time: the plan whose
// last tile finishes first. For 64 values of k, a tile takes the tensor cores 4 cycles per column. It also takes at
// least the time of its shared memory traffic at 128 bytes per cycle: both operands are written once, weights are read
// once, and activations are read once by each of the two warpgroups.
DensePlan plan_wide(const DenseDevice& device, const DenseShape& shape) {
  int fewest = shape.matrices[0].segments, most = fewest;
  for (const DenseRows& matrix : shape.matrices)
    fewest = std::min(fewest, matrix.segments), most = std::max(most, matrix.segments);
  DensePlan best{DenseKernel::kWgmma, 128, 128, false};
  double least = 0;
  for (const int width : {256, 192, 128})
    for (const bool split : {false, true}) {
      const DensePlan plan{DenseKernel::kWgmma, 128, width, split};
      // A width of 256 leaves no registers for the totals of several segments; a width of 192 leaves none for storing
      // partial sums.
      if (width == 256 && !split && most > 1) continue;
      if (split && (width == 192 || !can_split(shape, plan))) continue;
      const int64_t shared = (2 * width + 2 * 128 + width) * kDenseBlockK * 2 / 128;
      const auto cycles = static_cast<double>(std::max<int64_t>(4 * width, shared));
      // Storing partial sums takes about one seventh of the time that a short segment takes.
      const double share = split ? 1.15 / fewest : 1.0;
      const int64_t turns = (unit_count(shape, plan) + device.multiprocessors - 1) / device.multiprocessors;
      const double all = static_cast<double>(turns) * cycles * share;
      if (least == 0 || all < least) best = plan, least = all;
    }
  return best;
}
}  // namespace

DensePlan plan_dense(const DenseDevice& device, const DenseShape& shape) {
  // kFewest: maximum number of columns for which kFew is fast. kFew: maximum number of columns that kFew supports.
  constexpr int64_t kFewest = 8, kFew = 16;
  const int64_t columns = shape.experts > 0 ? columns_of_group(shape.columns, shape.experts) : shape.columns;
  if ((!device.wgmma && columns <= kFew) || (device.wgmma && !device.invariant && columns <= kFewest))
    return {DenseKernel::kFew, kDenseTileRows, columns <= 8 ? 8 : 16, false};

  DensePlan plan{device.wgmma ? DenseKernel::kWgmma : DenseKernel::kTiles, 128, 128, false};
  if (device.wgmma) {
    if (columns > 64) return plan_wide(device, shape);
    plan.tile_columns = columns <= 8 ? 8 : columns <= 16 ? 16 : columns <= 32 ? 32 : 64;
    // Tiles of 64 rows are faster: the gain from twice as many blocks that load weights outweighs the cost of reading
    // the inputs once more.
    plan.tile_rows = 64;
  } else {
    plan.tile_columns = columns <= 64 ? 32 : 128;
  }
  // If whole tiles leave multiprocessors idle, each segment of k is computed by a separate block (split-K).
  if (unit_count(shape, plan) < 2 * int64_t{device.multiprocessors}) {
    plan.split = true;
    plan.split = can_split(shape, plan);
  }
  return plan;
}

DenseDevice dense_device(const Runtime& runtime, const DenseOptions& options) {
  const DeviceProperties& device = runtime.device();
  return {.wgmma = options.wgmma && device.major == 9 && device.minor == 0,
          .invariant = options.invariant,
          .multiprocessors = std::max(device.multiprocessors, 1)};
}

ProductInput dense_input(const DenseScratch& scratch, InputForm form, int64_t n_columns, int64_t cols) {
  return {.form = form,
          .blocks = static_cast<int32_t>(dense_blocks(cols)),
          .column_groups = static_cast<int32_t>((n_columns + 7) / 8),
          .data = scratch.activations(),
          .scales = form == InputForm::kF16 ? scratch.scales() : nullptr};
}

namespace {
size_t activation_bytes(int64_t max_columns, int64_t max_cols) {
  return static_cast<size_t>((max_columns + 7) / 8 * 8 * dense_blocks(max_cols) * kDenseBlockK) * sizeof(uint16_t);
}
constexpr size_t kSumBytes = static_cast<size_t>(kDenseMostSums) * sizeof(float);
constexpr size_t kCounterBytes = static_cast<size_t>(kDenseMostCounters) * sizeof(int32_t);
}  // namespace

size_t DenseScratch::bytes_for(int64_t max_columns, int64_t max_cols) {
  return activation_bytes(max_columns, max_cols) + static_cast<size_t>((max_columns + 7) / 8 * 8) * sizeof(float) +
         kSumBytes + kCounterBytes;
}

Status DenseScratch::reserve(int64_t max_columns, int64_t max_cols) {
  if (const size_t bytes = activation_bytes(max_columns, max_cols); bytes > activation_bytes_) {
    runtime_.free(activations_);
    activations_ = nullptr;
    activation_bytes_ = 0;
    auto memory = runtime_.allocate(bytes);
    if (!memory) return memory.error();
    activations_ = static_cast<unsigned char*>(*memory);
    activation_bytes_ = bytes;
  }
  if (max_columns > n_scales_) {
    runtime_.free(scales_);
    scales_ = nullptr;
    n_scales_ = 0;
    auto memory = runtime_.allocate(static_cast<size_t>((max_columns + 7) / 8 * 8) * sizeof(float));
    if (!memory) return memory.error();
    scales_ = static_cast<float*>(*memory);
    n_scales_ = max_columns;
  }
  if (!sums_) {
    auto memory = runtime_.allocate(kSumBytes);
    if (!memory) return memory.error();
    sums_ = static_cast<float*>(*memory);
  }
  if (!counters_) {
    auto memory = runtime_.allocate(kCounterBytes);
    if (!memory) return memory.error();
    counters_ = static_cast<int32_t*>(*memory);
  }
  return {};
}

}  // namespace monolith::cuda
