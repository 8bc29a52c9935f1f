// Conversions between the kernels' packed layouts and plain rows, as needed for cuBLASLt. All of them are memory-bound.
#include "backend/cuda/dense/library.h"
#include "backend/cuda/device/launch.h"
#include "backend/cuda/matmul/product_input-inl.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kSteps = kDenseBlockK / 16;
// The numbers of words and of 16-byte groups that hold 64 values of k of a row.
constexpr int kRowWords = kDenseBlockK / 2, kPieces = kDenseBlockK / 8;

// A warp's tile of 16 rows and 64 values of k. Four words of padding per row avoid bank conflicts, both for fragment
// words and for 16-byte groups.
struct Tile {
  alignas(16) uint32_t words[kDenseTileRows][kRowWords + 4];
};

// Unpacks with one warp per 16 rows and 64 values of k: reads fragments and writes whole cache lines of rows.
__global__ void __launch_bounds__(kThreads)
    unpack_kernel(const Words4* weights, int k_blocks, int64_t first_tile, Words4* out) {
  start_after_inputs();
  Tile& tile = shared_memory<Tile[kWarps]>()[warp_id()];
  const int lane = lane_id(), block = static_cast<int>(blockIdx.y) * kWarps + warp_id();
  if (block >= k_blocks) return;
  const int64_t row_tile = blockIdx.x;
  const Words4* const from = weights + ((first_tile + row_tile) * k_blocks + block) * (kSteps * kWarp) + lane;
  MONOLITH_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const Words4 words = load_once(from + step * kWarp);
    const int at = step * 8 + lane % 4, row = lane / 4;
    tile.words[row][at] = words.x;
    tile.words[row + 8][at] = words.y;
    tile.words[row][at + 4] = words.z;
    tile.words[row + 8][at + 4] = words.w;
  }
  __syncwarp();
  MONOLITH_UNROLL
  for (int i = 0; i < kDenseTileRows * kPieces / kWarp; ++i) {
    const int row = i * (kWarp / kPieces) + lane / kPieces, piece = lane % kPieces;
    out[((row_tile * kDenseTileRows + row) * k_blocks + block) * kPieces + piece] =
        *reinterpret_cast<const Words4*>(&tile.words[row][piece * 4]);
  }
}

// One thread per 8 values.
__global__ void __launch_bounds__(kThreads)
    convert_rows_kernel(const float* x, int64_t cols, bool aligned, int64_t pieces, Words4* out) {
  start_after_inputs();
  const int64_t column = blockIdx.x, piece = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  out[column * pieces + piece] = convert_piece<InputForm::kBf16>(x + column * cols, piece * 8, cols, aligned, 1.0f);
}

__global__ void __launch_bounds__(kThreads) bias_kernel(float* out, int64_t stride, const float* bias, int64_t rows) {
  start_after_inputs();
  const int64_t column = blockIdx.x, row = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (row >= rows) return;
  out[column * stride + row] += bias[row];
}

dim3 grid_of(int64_t first, int64_t items, int per_block) {
  return {static_cast<unsigned>(first), static_cast<unsigned>((items + per_block - 1) / per_block), 1};
}

}  // namespace

void unpack_dense(Runtime& runtime, const void* weights, int64_t cols, int64_t first_row, int64_t n_rows, void* out) {
  const int64_t blocks = dense_blocks(cols);
  launch(runtime, unpack_kernel, grid_of(n_rows / kDenseTileRows, blocks, kWarps), kThreads, sizeof(Tile[kWarps]),
         static_cast<const Words4*>(weights), static_cast<int>(blocks), first_row / kDenseTileRows,
         static_cast<Words4*>(out));
}

void convert_rows(Runtime& runtime, const float* x, int64_t cols, int64_t n_columns, void* out) {
  const int64_t pieces = dense_blocks(cols) * kPieces;
  launch(runtime, convert_rows_kernel, grid_of(n_columns, pieces, kThreads), kThreads, 0, x, cols,
         cols % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0, pieces, static_cast<Words4*>(out));
}

void add_bias(Runtime& runtime, float* out, int64_t stride, const float* bias, int64_t rows, int64_t n_columns) {
  launch(runtime, bias_kernel, grid_of(n_columns, rows, kThreads), kThreads, 0, out, stride, bias, rows);
}

}  // namespace monolith::cuda
