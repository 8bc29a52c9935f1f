#include "backend/cuda/quant/activations_int8.h"

#include "backend/cuda/device/launch.h"
#include "backend/cuda/matmul/product_input-inl.h"
#include "backend/cuda/quant/form.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kValues = 4;  // Values per thread, so that a warp processes one chunk.

int64_t blocks_of(int64_t cols) { return (cols + kChunk - 1) / kChunk * (kChunk / 32); }

__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const float* x, const int32_t* source, int64_t cols, int64_t n_blocks, Int8Block* out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, from = source ? source[row] : row;
  if (from < 0) return;
  const int64_t k = (int64_t{blockIdx.y} * kThreads + static_cast<int>(threadIdx.x)) * kValues;
  if (k - lane_id() * kValues >= n_blocks * 32) return;  // Only whole warps return here.
  Floats4 values{0, 0, 0, 0};
  if (k < cols) values = *reinterpret_cast<const Floats4*>(x + from * cols + k);
  put_int8(out, n_blocks, row, k, values);
}

}  // namespace

size_t Int8Activations::bytes_for(int64_t max_rows, int64_t max_cols) {
  return static_cast<size_t>((max_rows + 7) / 8) * static_cast<size_t>(blocks_of(max_cols)) * sizeof(Int8Block);
}

Status Int8Activations::reserve(int64_t max_rows, int64_t max_cols) {
  const size_t bytes = bytes_for(max_rows, max_cols);
  if (bytes <= bytes_) return {};
  if (blocks_) runtime_.free(blocks_);
  blocks_ = nullptr;
  bytes_ = 0;
  auto memory = runtime_.allocate(bytes);
  if (!memory) return memory.error();
  blocks_ = static_cast<Int8Block*>(*memory);
  bytes_ = bytes;
  return {};
}

ProductInput Int8Activations::input(int64_t cols) const {
  return {.form = InputForm::kInt8,
          .blocks = static_cast<int32_t>(blocks_of(cols)),
          .column_groups = 0,
          .data = blocks_,
          .scales = nullptr};
}

const Int8Block* Int8Activations::quantize(const float* x, int n_rows, int64_t cols, const int32_t* source) const {
  const int64_t n_blocks = blocks_of(cols);
  const auto pieces = static_cast<unsigned>((n_blocks * 32 + kThreads * kValues - 1) / (kThreads * kValues));
  const dim3 grid{static_cast<unsigned>(n_rows), pieces, 1};
  launch(runtime_, quantize_kernel, grid, kThreads, 0, x, source, cols, n_blocks, blocks_);
  return blocks_;
}

}  // namespace monolith::cuda
