// Row operations: one block per row (or head), or one thread per number. Every row is summed in the same order
// whatever the others are.
#include "backend/cuda/rows.h"

#include <algorithm>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;

struct Sums {
  float of_warp[kThreads / kWarp];
};

// The block's sum of each thread's `value`; every thread has it. Ends with the block's barrier before use again.
MONOLITH_DEVICE float block_sum(float value, Sums& shared) {
  value = warp_sum(value);
  if (lane_id() == 0) shared.of_warp[warp_id()] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads / kWarp; ++i) sum += shared.of_warp[i];
  __syncthreads();
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    rms_norm_kernel(const float* x, int64_t row_stride, int64_t part_stride, const float* weight, float eps, int64_t dim,
                    float* out) {
  Sums& shared = shared_memory<Sums>();
  const int64_t at = blockIdx.x * row_stride + blockIdx.y * part_stride;
  x += at;
  out += at;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) sum = fmaf(x[i], x[i], sum);
  sum = block_sum(sum, shared);
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(dim) + eps);
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) out[i] = x[i] * factor * weight[i];
}

MONOLITH_DEVICE int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

__global__ void __launch_bounds__(kThreads)
    gated_kernel(Activation activation, const float* gate, const float* up, int64_t count, float* out) {
  const int64_t i = thread_number();
  if (i < count) out[i] = activate(activation, gate[i]) * up[i];
}

__global__ void __launch_bounds__(kThreads) scale_kernel(float* x, int64_t count, float factor) {
  const int64_t i = thread_number();
  if (i < count) x[i] *= factor;
}

__global__ void __launch_bounds__(kThreads) soft_cap_kernel(float* x, int64_t count, float cap) {
  const int64_t i = thread_number();
  if (i < count) x[i] = cap * tanhf(x[i] / cap);
}

__global__ void __launch_bounds__(kThreads)
    add_rows_kernel(float* x, const float* y, float factor, const float* gate, int64_t dim) {
  const int64_t row = blockIdx.y, i = thread_number();
  if (i >= dim) return;
  const float weight = gate ? factor * sigmoid(gate[row]) : factor;
  x[row * dim + i] = fmaf(weight, y[row * dim + i], x[row * dim + i]);
}

__global__ void __launch_bounds__(kThreads) gather_kernel(const float* x, const int32_t* rows, int64_t dim, float* out) {
  const int64_t row = blockIdx.y, i = thread_number();
  if (i < dim) out[row * dim + i] = x[rows[row] * dim + i];
}

unsigned blocks_for(int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

}  // namespace

void rms_norm(Runtime& runtime, const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out) {
  if (n_rows > 0)
    launch(runtime, rms_norm_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kThreads, sizeof(Sums), x, dim, 0, weight, eps,
           dim, out);
}

void rms_norm_heads(Runtime& runtime, float* x, int64_t row_stride, const float* weight, float eps, int n_rows, int n_heads,
                    int head_dim) {
  if (n_rows > 0)
    launch(runtime, rms_norm_kernel, dim3{static_cast<unsigned>(n_rows), static_cast<unsigned>(n_heads), 1}, kThreads,
           sizeof(Sums), x, row_stride, head_dim, weight, eps, head_dim, x);
}

void gated(Runtime& runtime, Activation activation, const float* gate, const float* up, int64_t count, float* out) {
  if (count > 0) launch(runtime, gated_kernel, dim3{blocks_for(count), 1, 1}, kThreads, 0, activation, gate, up, count, out);
}

void scale(Runtime& runtime, float* x, int64_t count, float factor) {
  if (count > 0) launch(runtime, scale_kernel, dim3{blocks_for(count), 1, 1}, kThreads, 0, x, count, factor);
}

void soft_cap(Runtime& runtime, float* x, int64_t count, float cap) {
  if (count > 0) launch(runtime, soft_cap_kernel, dim3{blocks_for(count), 1, 1}, kThreads, 0, x, count, cap);
}

namespace {
constexpr int kMostGridRows = 65535;
}

void add_rows(Runtime& runtime, float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) {
  for (int64_t row = 0; row < n_rows; row += kMostGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMostGridRows));
    launch(runtime, add_rows_kernel, dim3{blocks_for(dim), n, 1}, kThreads, 0, x + row * dim, y + row * dim, factor,
           gate ? gate + row : nullptr, dim);
  }
}

void gather_rows(Runtime& runtime, const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) {
  for (int64_t row = 0; row < n_rows; row += kMostGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMostGridRows));
    launch(runtime, gather_kernel, dim3{blocks_for(dim), n, 1}, kThreads, 0, x, rows + row, dim, out + row * dim);
  }
}

}  // namespace monolith::cuda
