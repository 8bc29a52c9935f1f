// The host code and helper kernels around a 16-bit or FP8 GEMM: the conversion of activations to 16 bits in the layout
// that the kernels read (dense.h), row lookup in packed embedding tables, and the launch itself.
#include <algorithm>

#include "backend/cuda/dense/kernels.h"
#include "backend/cuda/matmul/product_input-inl.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kPieces = kThreads / 8;  // Groups of 8 values of k that one block converts, for 8 columns.

// Computes the scale of a row, using all threads of a block. All threads receive the result.
MONOLITH_DEVICE float row_scale(const float* row, int64_t cols, float (&of_warp)[kWarps]) {
  float largest = 0;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) largest = larger(largest, row[i]);
  return scale_for(block_largest(largest, of_warp));
}

__global__ void __launch_bounds__(kThreads)
    scales_kernel(const float* x, int64_t cols, const int32_t* source, float* scales) {
  start_after_inputs();
  auto& of_warp = shared_memory<float[kWarps]>();
  const int64_t column = blockIdx.x, row = source ? source[column] : column;
  if (row < 0) return;
  const float scale = row_scale(x + row * cols, cols, of_warp);
  if (threadIdx.x == 0) scales[column] = scale;
}

// Converts a few columns to binary16 with one block per column. A single kernel computes scales and values.
__global__ void __launch_bounds__(kThreads)
    convert_rows_kernel(const float* x, int64_t cols, const int32_t* source, float* scales, bool aligned, int k_blocks,
                        int column_groups, unsigned char* out) {
  start_after_inputs();
  auto& of_warp = shared_memory<float[kWarps]>();
  const int64_t column = blockIdx.x, row = source ? source[column] : column;
  if (row < 0) return;
  const float* const from = x + row * cols;
  const float scale = row_scale(from, cols, of_warp);
  if (threadIdx.x == 0) scales[column] = scale;
  const float factor = inverse_of(scale);
  for (int64_t piece = threadIdx.x; piece < int64_t{k_blocks} * 8; piece += kThreads)
    *piece_place(out, column_groups, column, piece) =
        convert_piece<InputForm::kF16>(from, piece * 8, cols, aligned, factor);
}

// Converts with one thread per 8 values of a column. A warp reads 128 bytes of each of 8 rows and writes 4 core
// matrices.
template <InputForm kForm>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const float* x, int64_t cols, int64_t n_columns, const int32_t* source, const float* scales,
                   bool aligned, int k_blocks, int column_groups, unsigned char* out) {
  start_after_inputs();
  const int64_t group = blockIdx.x, column = group * 8 + threadIdx.x % 8;
  const int64_t piece = static_cast<int64_t>(blockIdx.y) * kPieces + threadIdx.x / 8;
  if (column >= n_columns || piece >= int64_t{k_blocks} * 8) return;
  const int64_t row = source ? source[column] : column;
  if (row < 0) return;
  const float factor = kForm == InputForm::kF16 ? inverse_of(scales[column]) : 1.0f;
  *piece_place(out, column_groups, column, piece) =
      convert_piece<kForm>(x + row * cols, piece * 8, cols, aligned, factor);
}

template <DenseKind kKind>
__global__ void __launch_bounds__(kThreads)
    embed_kernel(const uint16_t* table, int64_t cols, int64_t steps, const int32_t* tokens, float* out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, token = tokens[row];
  for (int64_t k = threadIdx.x; k < cols; k += kThreads) {
    const int64_t in_step = k % 16, lane = token % 8 * 4 + in_step % 8 / 2, word = in_step / 8 * 2 + token % 16 / 8;
    const uint16_t bits = table[(((token / 16) * steps + k / 16) * kWarp + lane) * 8 + word * 2 + k % 2];
    out[row * cols + k] = kKind == DenseKind::kBf16 ? bfloat16_to_float(bits) : half_to_float(bits);
  }
}

DenseKind kind_of(const Matrix& matrix) {
  const Format format = static_cast<const CudaMatrix&>(matrix).format();
  return format == Format::kBf16 ? DenseKind::kBf16 : format == Format::kF16 ? DenseKind::kF16 : DenseKind::kFp8;
}

}  // namespace

void convert_dense(Runtime& runtime, const DenseScratch& scratch, DenseKind kind, const float* x, int64_t cols,
                   int64_t n_columns, const int32_t* source) {
  const auto blocks = dense_blocks(cols), groups = (n_columns + 7) / 8;
  const bool aligned = cols % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  const dim3 rows{static_cast<unsigned>(n_columns), 1, 1};
  constexpr int64_t kFewRows = 64;
  if (kind == DenseKind::kF16 && n_columns <= kFewRows) {
    launch(runtime, convert_rows_kernel, rows, kThreads, sizeof(float[kWarps]), x, cols, source, scratch.scales(),
           aligned, static_cast<int>(blocks), static_cast<int>(groups), scratch.activations());
    return;
  }
  if (kind == DenseKind::kF16)
    launch(runtime, scales_kernel, rows, kThreads, sizeof(float[kWarps]), x, cols, source, scratch.scales());
  const dim3 grid{static_cast<unsigned>(groups), static_cast<unsigned>((blocks * 8 + kPieces - 1) / kPieces), 1};
  launch(runtime, kind == DenseKind::kBf16 ? convert_kernel<InputForm::kBf16> : convert_kernel<InputForm::kF16>, grid,
         kThreads, 0, x, cols, n_columns, source, scratch.scales(), aligned, static_cast<int>(blocks),
         static_cast<int>(groups), scratch.activations());
}

void matmul_dense(Runtime& runtime, const DenseScratch& scratch, const DenseDevice& device,
                  std::span<const MatmulTarget> targets, const float* x, int64_t n_columns, const ColumnGroups* groups,
                  bool converted) {
  const DenseKind kind = kind_of(*targets[0].weight);
  const int64_t cols = targets[0].weight->cols, n_experts = groups ? groups->n_experts : 1;
  const int64_t columns = groups ? groups->n_slots : n_columns;
  const DenseKind input = kind == DenseKind::kBf16 ? kind : DenseKind::kF16;
  if (!converted) convert_dense(runtime, scratch, input, x, cols, columns, groups ? groups->source : nullptr);
  while (!targets.empty()) {
    const auto some = targets.first(std::min<size_t>(targets.size(), kMaxDenseTargets));
    targets = targets.subspan(some.size());
    DenseRows matrices[kMaxDenseTargets];
    for (size_t i = 0; i < some.size(); ++i) {
      const int64_t rows = some[i].weight->rows / n_experts;
      matrices[i] = {rows, dense_segments(rows, cols)};
    }
    const DenseShape shape{{matrices, some.size()}, groups ? groups->n_pairs : columns, groups ? n_experts : 0};
    const DensePlan plan = plan_dense(device, shape);
    if (groups) cut_tiles(runtime, *groups, plan.tile_columns);
    DenseLaunch work{};
    for (size_t i = 0; i < some.size(); ++i) {
      const MatmulTarget& target = some[i];
      const void* const data = static_cast<const CudaMatrix*>(target.weight)->data();
      const bool fp8 = kind == DenseKind::kFp8;
      work.targets[i] = {.weight = static_cast<const Words4*>(data),
                         .row_scales = fp8 ? fp8_matrix(data, target.weight->rows, cols).scales : nullptr,
                         .out = target.out,
                         .bias = target.bias,
                         .out_stride = target.out_stride,
                         .rows = static_cast<int32_t>(matrices[i].rows),
                         .row_tiles = static_cast<int32_t>(row_tiles(matrices[i], plan)),
                         .segments = matrices[i].segments,
                         .add_to_out = target.add_to_out};
      work.row_units += work.targets[i].row_tiles * (plan.split ? matrices[i].segments : 1);
    }
    work.x = scratch.activations();
    work.scales = input == DenseKind::kF16 ? scratch.scales() : nullptr;
    work.tiles = groups ? groups->tiles : nullptr;
    work.sums = scratch.sums();
    work.counters = scratch.counters();
    work.n_targets = static_cast<int32_t>(some.size());
    work.k_blocks = static_cast<int32_t>(dense_blocks(cols));
    work.n_columns = static_cast<int32_t>(columns);
    work.column_groups = static_cast<int32_t>((columns + 7) / 8);
    work.column_tiles = static_cast<int32_t>(column_tiles(shape, plan.tile_columns));
    work.split = plan.split;
    switch (plan.kernel) {
      case DenseKernel::kFew: launch_dense_few(runtime, plan, kind, work); break;
      case DenseKernel::kTiles: launch_dense_tiles(runtime, plan, kind, work); break;
      case DenseKernel::kWgmma: launch_dense_wgmma(runtime, plan, kind, work); break;
    }
  }
}

void embed_dense(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out) {
  if (n_rows == 0) return;
  if (kind_of(table) == DenseKind::kFp8)
    return embed_fp8(runtime, fp8_matrix(table.data(), table.rows, table.cols), table.cols, tokens, n_rows, out);
  launch(runtime, kind_of(table) == DenseKind::kBf16 ? embed_kernel<DenseKind::kBf16> : embed_kernel<DenseKind::kF16>,
         dim3{static_cast<unsigned>(n_rows), 1, 1}, kThreads, 0, static_cast<const uint16_t*>(table.data()), table.cols,
         dense_blocks(table.cols) * (kDenseBlockK / 16), tokens, out);
}

}  // namespace monolith::cuda
