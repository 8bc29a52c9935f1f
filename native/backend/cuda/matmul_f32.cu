// Products in binary32: one warp per output row of the matrix and input row, lanes over the columns.
#include "backend/cuda/device/launch.h"
#include "backend/cuda/matmul.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;

__global__ void __launch_bounds__(kThreads)
    product_kernel(const float* weight, int64_t rows, int64_t cols, const float* x, int n_rows, float* out,
                   int64_t out_stride, const float* bias, bool add_to_out) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (r >= rows) return;
  const float* const w = weight + r * cols;
  for (int64_t row = blockIdx.y; row < n_rows; row += gridDim.y) {
    float sum = 0;
    for (int64_t i = lane_id(); i < cols; i += kWarp) sum = fmaf(w[i], x[row * cols + i], sum);
    sum = warp_sum(sum);
    if (lane_id() != 0) continue;
    float* const to = out + row * out_stride + r;
    if (bias) sum += bias[r];
    *to = add_to_out ? *to + sum : sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    embed_kernel(const float* table, int64_t cols, const int32_t* tokens, float* out) {
  const int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) out[row * cols + i] = table[tokens[row] * cols + i];
}

}  // namespace

void matmul_f32(Runtime& runtime, const MatmulTarget& target, const float* x, int n_rows) {
  const Matrix& weight = *target.weight;
  const dim3 grid{static_cast<unsigned>((weight.rows + kWarps - 1) / kWarps), static_cast<unsigned>(n_rows < 65535 ? n_rows : 65535), 1};
  launch(runtime, product_kernel, grid, kThreads, 0, static_cast<const float*>(static_cast<const CudaMatrix&>(weight).data()),
         weight.rows, weight.cols, x, n_rows, target.out, target.out_stride, target.bias, target.add_to_out);
}

void embed_f32(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out) {
  launch(runtime, embed_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kThreads, 0, static_cast<const float*>(table.data()),
         table.cols, tokens, out);
}

}  // namespace monolith::cuda
