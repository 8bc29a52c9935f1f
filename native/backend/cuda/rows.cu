// Kernels for row-wise operations: one block per row (one warp per head), or one thread per value. The summation order
// of a row depends only on its length. Values are read and written four at a time where length and alignment allow.
#include "backend/cuda/rows.h"

#include <algorithm>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/matmul/product_input-inl.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;
// Threads per row of a norm. A single row is one block, and its time is dominated by its loads.
constexpr int kRowThreads = 512;
constexpr int kRowWarps = kRowThreads / kWarp;

struct Sums {
  float of_warp[kRowWarps];
  float largest[kRowWarps];
};

// Returns to every thread the sum of `value` over all threads of the block.
MONOLITH_DEVICE float block_sum(float value, Sums& shared) {
  value = warp_sum(value);
  if (lane_id() == 0) shared.of_warp[warp_id()] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kRowWarps; ++i) sum += shared.of_warp[i];
  return sum;
}

MONOLITH_DEVICE float add_squares(const Floats4& x, float sum) {
  return fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, fmaf(x.x, x.x, sum))));
}
MONOLITH_DEVICE Floats4 scaled(const Floats4& x, float factor, const Floats4& weight) {
  return {x.x * factor * weight.x, x.y * factor * weight.y, x.z * factor * weight.z, x.w * factor * weight.w};
}

__global__ void __launch_bounds__(kRowThreads)
    rms_norm_kernel(const float* x, const float* weight, float eps, int64_t dim, float* out) {
  start_after_inputs();
  Sums& shared = shared_memory<Sums>();
  x += blockIdx.x * dim;
  out += blockIdx.x * dim;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) sum = fmaf(x[i], x[i], sum);
  sum = block_sum(sum, shared);
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(dim) + eps);
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) out[i] = weight ? x[i] * factor * weight[i] : x[i] * factor;
}

// RMS norm of rows of up to kQuads * 4 * kRowThreads values (a multiple of four), each read only once. The result is
// written as float32 unless `out` is null, and in the matmul's input format.
constexpr int kQuads = 4;
template <InputForm kForm>
__global__ void __launch_bounds__(kRowThreads) rms_norm_quads_kernel(const Floats4* x, const Floats4* weight, float eps,
                                                                     int quads, Floats4* out, ProductInput input) {
  let_next_start();
  Sums& shared = shared_memory<Sums>();
  const int first = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  x += row * quads;
  if (out) out += row * quads;
  Floats4 own[kQuads], weights[kQuads];
  MONOLITH_UNROLL
  for (int i = 0; i < kQuads; ++i)
    if (first + i * kRowThreads < quads) weights[i] = weight ? weight[first + i * kRowThreads] : Floats4{1, 1, 1, 1};
  wait_for_inputs();
  MONOLITH_UNROLL
  for (int i = 0; i < kQuads; ++i)
    if (first + i * kRowThreads < quads) own[i] = x[first + i * kRowThreads];
  float sum = 0;
  MONOLITH_UNROLL
  for (int i = 0; i < kQuads; ++i)
    if (first + i * kRowThreads < quads) sum = add_squares(own[i], sum);
  sum = block_sum(sum, shared);
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(4 * quads) + eps);
  if constexpr (kForm == InputForm::kFloats) {
    MONOLITH_UNROLL
    for (int i = 0; i < kQuads; ++i) {
      const int at = first + i * kRowThreads;
      if (at < quads) out[at] = scaled(own[i], factor, weights[i]);
    }
  } else {
    const bool keeps = out != nullptr;
    float largest = 0, inverse = 1;
    MONOLITH_UNROLL
    for (int i = 0; i < kQuads; ++i) {
      const int at = first + i * kRowThreads;
      own[i] = at < quads ? scaled(own[i], factor, weights[i]) : Floats4{0, 0, 0, 0};
      if (keeps && at < quads) out[at] = own[i];
      if constexpr (kForm == InputForm::kF16) largest = larger(largest, own[i]);
    }
    if constexpr (kForm == InputForm::kF16) {
      const float scale = scale_for(block_largest(largest, shared.largest));
      inverse = inverse_of(scale);
      if (first == 0) input.scales[row] = scale;
    }
    const int filled = filled_quads<kForm>(input);
    MONOLITH_UNROLL
    for (int i = 0; i < kQuads; ++i) {
      const int at = first + i * kRowThreads;
      if (at < filled) put_quad<kForm>(input, row, at, own[i], inverse);
    }
  }
}

// Layer norm: computes the mean first, then the squared deviations. A null `weight` means all ones; a null `bias` means
// no bias. `weight` has n_weights rows; row i of x uses row i % n_weights of it.
__global__ void __launch_bounds__(kRowThreads)
    layer_norm_kernel(const float* x, const float* weight, unsigned n_weights, const float* bias, float eps,
                      int64_t dim, float* out) {
  start_after_inputs();
  Sums& shared = shared_memory<Sums>();
  x += blockIdx.x * dim;
  out += blockIdx.x * dim;
  if (weight) weight += blockIdx.x % n_weights * dim;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) sum += x[i];
  const float mean = block_sum(sum, shared) / static_cast<float>(dim);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) squares = fmaf(x[i] - mean, x[i] - mean, squares);
  __syncthreads();  // All threads have read the mean.
  const float factor = 1.0f / sqrtf(block_sum(squares, shared) / static_cast<float>(dim) + eps);
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) {
    const float rest = (x[i] - mean) * factor, weighted = weight ? rest * weight[i] : rest;
    out[i] = bias ? weighted + bias[i] : weighted;
  }
}

// Launched with one warp per head; blockIdx.x is the row.
constexpr int kHeadWarps = 4;
__global__ void __launch_bounds__(kHeadWarps* kWarp)
    rms_norm_heads_kernel(float* x, int64_t row_stride, const float* weight, int64_t weight_stride, float eps,
                          int n_heads, int head_dim) {
  start_after_inputs();
  const int head = static_cast<int>(blockIdx.y) * kHeadWarps + warp_id();
  if (head >= n_heads) return;  // Only whole warps return here.
  x += blockIdx.x * row_stride + static_cast<int64_t>(head) * head_dim;
  float sum = 0;
  for (int i = lane_id(); i < head_dim; i += kWarp) sum = fmaf(x[i], x[i], sum);
  sum = warp_sum(sum);
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(head_dim) + eps);
  const float* const own = weight ? weight + head * weight_stride : nullptr;
  for (int i = lane_id(); i < head_dim; i += kWarp) x[i] = own ? x[i] * factor * own[i] : x[i] * factor;
}

MONOLITH_DEVICE int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

// In the kernels below `Numbers` is float or Floats4, and counts are in units of that type.
MONOLITH_DEVICE float gate_with(const Gating& gating, float gate, float up) { return gated_value(gating, gate, up); }
MONOLITH_DEVICE Floats4 gate_with(const Gating& gating, const Floats4& gate, const Floats4& up) {
  return {gate_with(gating, gate.x, up.x), gate_with(gating, gate.y, up.y), gate_with(gating, gate.z, up.z),
          gate_with(gating, gate.w, up.w)};
}
MONOLITH_DEVICE float times(float x, float factor) { return x * factor; }
MONOLITH_DEVICE Floats4 times(const Floats4& x, float factor) {
  return {x.x * factor, x.y * factor, x.z * factor, x.w * factor};
}
MONOLITH_DEVICE float capped(float x, float cap) { return cap * tanhf(x / cap); }
MONOLITH_DEVICE Floats4 capped(const Floats4& x, float cap) {
  return {capped(x.x, cap), capped(x.y, cap), capped(x.z, cap), capped(x.w, cap)};
}
MONOLITH_DEVICE float add_times(float factor, float y, float x) { return fmaf(factor, y, x); }
MONOLITH_DEVICE Floats4 add_times(float factor, const Floats4& y, const Floats4& x) {
  return {fmaf(factor, y.x, x.x), fmaf(factor, y.y, x.y), fmaf(factor, y.z, x.z), fmaf(factor, y.w, x.w)};
}

template <typename Numbers>
__global__ void __launch_bounds__(kThreads)
    gated_kernel(Gating gating, const Numbers* gate, const Numbers* up, int64_t count, Numbers* out) {
  start_after_inputs();
  const int64_t i = thread_number();
  if (i < count) out[i] = gate_with(gating, gate[i], up[i]);
}

// Returns four gated values, starting at value 4 * at, of a row of `quads` groups of four; beyond the row's end,
// returns zeros. Unless `out` is null, also stores the values there.
MONOLITH_DEVICE Floats4 gated_quad(const Gating& gating, const Floats4* gate, const Floats4* up, int64_t row, int quads,
                                   int at, Floats4* out) {
  if (at >= quads) return {0, 0, 0, 0};
  const int64_t place = row * quads + at;
  const Floats4 result = gate_with(gating, gate[place], up[place]);
  if (out) out[place] = result;
  return result;
}

// Gating with bfloat16 output and one thread per 8 values: a warp reads 128 bytes of each of 8 rows and writes 4 runs
// of 128 bytes.
constexpr int kPieces = kThreads / 8;
__global__ void __launch_bounds__(kThreads)
    gated_pieces_kernel(Gating gating, const Floats4* gate, const Floats4* up, int n_rows, int quads, Floats4* out,
                        ProductInput input) {
  start_after_inputs();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x % 8;
  const int piece = static_cast<int>(blockIdx.y * kPieces + threadIdx.x / 8);
  if (row >= n_rows || 2 * piece >= filled_quads<InputForm::kBf16>(input)) return;
  const Words2 low = pack_quad<InputForm::kBf16>(gated_quad(gating, gate, up, row, quads, 2 * piece, out), 1.0f);
  const Words2 high = pack_quad<InputForm::kBf16>(gated_quad(gating, gate, up, row, quads, 2 * piece + 1, out), 1.0f);
  *piece_place(input.data, input.column_groups, row, piece) = {low.x, low.y, high.x, high.y};
}

// Gating with 8-bit output and one thread per four values.
__global__ void __launch_bounds__(kThreads) gated_blocks_kernel(Gating gating, const Floats4* gate, const Floats4* up,
                                                                int quads, Floats4* out, ProductInput input) {
  start_after_inputs();
  const int64_t row = blockIdx.x;
  const int at = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (at - lane_id() >= filled_quads<InputForm::kInt8>(input)) return;  // Only whole warps return here.
  const Floats4 result = gated_quad(gating, gate, up, row, quads, at, out);
  put_quad<InputForm::kInt8>(input, row, at, result, 1.0f);
}

// Gating with binary16 output and one block per row. The row's largest magnitude is needed first, so all values are
// computed twice.
__global__ void __launch_bounds__(kRowThreads) gated_row_kernel(Gating gating, const Floats4* gate, const Floats4* up,
                                                                int quads, Floats4* out, ProductInput input) {
  start_after_inputs();
  Sums& shared = shared_memory<Sums>();
  const int64_t row = blockIdx.x;
  float largest = 0;
  for (int at = static_cast<int>(threadIdx.x); at < quads; at += kRowThreads)
    largest = larger(largest, gated_quad(gating, gate, up, row, quads, at, nullptr));
  const float scale = scale_for(block_largest(largest, shared.largest)), inverse = inverse_of(scale);
  if (threadIdx.x == 0) input.scales[row] = scale;
  for (int at = static_cast<int>(threadIdx.x); at < filled_quads<InputForm::kF16>(input); at += kRowThreads) {
    const Floats4 result = gated_quad(gating, gate, up, row, quads, at, out);
    put_quad<InputForm::kF16>(input, row, at, result, inverse);
  }
}

__global__ void __launch_bounds__(kThreads) activate_kernel(Activation activation, float* x, int64_t count) {
  start_after_inputs();
  const int64_t i = thread_number();
  if (i < count) x[i] = activate(activation, x[i]);
}

__global__ void __launch_bounds__(kThreads) xielu_kernel(Xielu params, float* x, int64_t count) {
  start_after_inputs();
  const int64_t i = thread_number();
  if (i >= count) return;
  const float v = x[i], least = params.least < v ? params.least : v;
  x[i] = fmaf(params.linear, v, 0.0f < v ? v * v * params.positive : (expm1f(least) - v) * params.negative);
}

__global__ void __launch_bounds__(kThreads)
    gate_heads_kernel(HeadGate kind, float* x, const float* gate, int head_dim, int64_t dim) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i >= dim) return;
  const float own = gate[row * (dim / head_dim) + i / head_dim];
  x[row * dim + i] *= kind == HeadGate::kSoftplus ? softplus(own) : sigmoid(own);
}

__global__ void __launch_bounds__(kThreads) scale_columns_kernel(float* x, const float* factors, int64_t dim) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i < dim) x[row * dim + i] *= factors[i];
}

__global__ void __launch_bounds__(kThreads) add_weighted_kernel(float* x, const float* y, const float* weights,
                                                                int64_t weight_stride, float offset, int64_t dim) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i < dim) x[row * dim + i] = fmaf(weights[row * weight_stride] + offset, y[row * dim + i], x[row * dim + i]);
}

__global__ void __launch_bounds__(kRowThreads) match_length_kernel(float* x, const float* y, int64_t dim) {
  start_after_inputs();
  Sums& shared = shared_memory<Sums>();
  x += blockIdx.x * dim;
  y += blockIdx.x * dim;
  float wanted = 0, found = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) {
    wanted = fmaf(y[i], y[i], wanted);
    found = fmaf(x[i], x[i], found);
  }
  wanted = block_sum(wanted, shared);
  __syncthreads();  // All threads have read the sum.
  found = block_sum(found, shared);
  const float factor = sqrtf(wanted) / sqrtf(found < 1e-30f ? 1e-30f : found);
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) x[i] *= factor;
}

__global__ void __launch_bounds__(kRowThreads) keep_outliers_kernel(float* x, float deviations, int64_t dim) {
  start_after_inputs();
  Sums& shared = shared_memory<Sums>();
  x += blockIdx.x * dim;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) sum += x[i];
  const float mean = block_sum(sum, shared) / static_cast<float>(dim);
  float rest = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) rest = fmaf(x[i] - mean, x[i] - mean, rest);
  __syncthreads();  // All threads have read the mean.
  const float deviation = sqrtf(block_sum(rest, shared) / static_cast<float>(dim > 1 ? dim - 1 : 1));
  const float cut = mean + deviation * deviations;
  for (int64_t i = threadIdx.x; i < dim; i += kRowThreads) {
    const float over = x[i] - cut;
    x[i] = over < 0 ? 0.0f : over;
  }
}

__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(const float* x, int64_t x_stride, int64_t dim, float* out) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i < dim) out[row * dim + i] = x[row * x_stride + i];
}

__global__ void __launch_bounds__(kThreads) add_bias_kernel(float* x, const float* bias, int64_t dim) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i < dim) x[row * dim + i] += bias[i];
}

template <typename Numbers>
__global__ void __launch_bounds__(kThreads) scale_kernel(Numbers* x, int64_t count, float factor) {
  start_after_inputs();
  const int64_t i = thread_number();
  if (i < count) x[i] = times(x[i], factor);
}

template <typename Numbers>
__global__ void __launch_bounds__(kThreads) soft_cap_kernel(Numbers* x, int64_t count, float cap) {
  start_after_inputs();
  const int64_t i = thread_number();
  if (i < count) x[i] = capped(x[i], cap);
}

__global__ void __launch_bounds__(kThreads) clamp_kernel(float* x, int64_t count, float limit) {
  start_after_inputs();
  const int64_t i = thread_number();
  if (i < count) x[i] = fminf(fmaxf(x[i], -limit), limit);
}

template <typename Numbers>
__global__ void __launch_bounds__(kThreads)
    add_rows_kernel(Numbers* x, const Numbers* y, float factor, const float* gate, int64_t dim) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i >= dim) return;
  const float weight = gate ? factor * sigmoid(gate[row]) : factor;
  x[row * dim + i] = add_times(weight, y[row * dim + i], x[row * dim + i]);
}

template <typename Numbers>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const Numbers* x, const int32_t* rows, int64_t dim, Numbers* out) {
  start_after_inputs();
  const int64_t row = blockIdx.y, i = thread_number();
  if (i < dim) out[row * dim + i] = x[rows[row] * dim + i];
}

dim3 grid_for(int64_t count, unsigned rows = 1) {
  return {static_cast<unsigned>((count + kThreads - 1) / kThreads), rows, 1};
}

bool in_quads(const void* place) { return reinterpret_cast<uintptr_t>(place) % sizeof(Floats4) == 0; }
const Floats4* quads(const float* x) { return reinterpret_cast<const Floats4*>(x); }
Floats4* quads(float* x) { return reinterpret_cast<Floats4*>(x); }

constexpr int kMaxGridRows = 65535;

auto norm_kernel(InputForm form) {
  switch (form) {
    case InputForm::kBf16: return rms_norm_quads_kernel<InputForm::kBf16>;
    case InputForm::kF16: return rms_norm_quads_kernel<InputForm::kF16>;
    case InputForm::kInt8: return rms_norm_quads_kernel<InputForm::kInt8>;
    case InputForm::kFloats: break;
  }
  return rms_norm_quads_kernel<InputForm::kFloats>;
}

}  // namespace

// Each NormForm has its own summation order, so the choice of the form must depend only on the row length. Alignment
// need not be checked: all buffers are aligned, so rows of a suitable length are also aligned.
NormForm norm_form(int64_t dim) {
  return dim % 4 == 0 && dim <= int64_t{kQuads} * 4 * kRowThreads ? NormForm::kQuads : NormForm::kPlain;
}

void rms_norm(Runtime& runtime, const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out,
              const ProductInput& input) {
  if (n_rows == 0) return;
  const dim3 grid{static_cast<unsigned>(n_rows), 1, 1};
  if (norm_form(dim) == NormForm::kQuads)
    launch(runtime, norm_kernel(input.form), grid, kRowThreads, sizeof(Sums), quads(x), quads(weight), eps, dim / 4,
           quads(out), input);
  else
    launch(runtime, rms_norm_kernel, grid, kRowThreads, sizeof(Sums), x, weight, eps, dim, out);
}

void rms_norm_heads(Runtime& runtime, float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                    int n_heads, int head_dim) {
  if (n_rows == 0) return;
  const dim3 grid{static_cast<unsigned>(n_rows), static_cast<unsigned>((n_heads + kHeadWarps - 1) / kHeadWarps), 1};
  launch(runtime, rms_norm_heads_kernel, grid, kHeadWarps * kWarp, 0, x, row_stride, weight, 0, eps, n_heads, head_dim);
}

void rms_norm_groups(Runtime& runtime, float* x, const float* weight, float eps, int n_rows, int n_groups,
                     int64_t dim) {
  if (n_rows == 0) return;
  const dim3 grid{static_cast<unsigned>(n_rows), static_cast<unsigned>((n_groups + kHeadWarps - 1) / kHeadWarps), 1};
  launch(runtime, rms_norm_heads_kernel, grid, kHeadWarps * kWarp, 0, x, n_groups * dim, weight, dim, eps, n_groups,
         static_cast<int>(dim));
}

void layer_norm(Runtime& runtime, const float* x, const float* weight, const float* bias, float eps, int n_rows,
                int64_t dim, float* out) {
  if (n_rows == 0) return;
  launch(runtime, layer_norm_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kRowThreads, sizeof(Sums), x, weight,
         1u, bias, eps, dim, out);
}

void layer_norm_groups(Runtime& runtime, float* x, const float* weight, float eps, int n_rows, int n_groups,
                       int64_t dim) {
  if (n_rows == 0) return;
  const auto groups = static_cast<unsigned>(n_groups);
  launch(runtime, layer_norm_kernel, dim3{static_cast<unsigned>(n_rows) * groups, 1, 1}, kRowThreads, sizeof(Sums), x,
         weight, groups, static_cast<const float*>(nullptr), eps, dim, x);
}

void add_bias(Runtime& runtime, float* x, const float* bias, int n_rows, int64_t dim) {
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    launch(runtime, add_bias_kernel, grid_for(dim, n), kThreads, 0, x + row * dim, bias, dim);
  }
}

void activate(Runtime& runtime, Activation activation, float* x, int64_t count) {
  if (count == 0) return;
  launch(runtime, activate_kernel, grid_for(count), kThreads, 0, activation, x, count);
}

void xielu(Runtime& runtime, const Xielu& params, float* x, int64_t count) {
  if (count == 0) return;
  launch(runtime, xielu_kernel, grid_for(count), kThreads, 0, params, x, count);
}

void gate_heads(Runtime& runtime, HeadGate kind, float* x, const float* gate, int n_rows, int n_heads, int head_dim) {
  const int64_t dim = int64_t{n_heads} * head_dim;
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    launch(runtime, gate_heads_kernel, grid_for(dim, n), kThreads, 0, kind, x + row * dim, gate + row * n_heads,
           head_dim, dim);
  }
}

void scale_columns(Runtime& runtime, float* x, const float* factors, int n_rows, int64_t dim) {
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    launch(runtime, scale_columns_kernel, grid_for(dim, n), kThreads, 0, x + row * dim, factors, dim);
  }
}

void add_weighted(Runtime& runtime, float* x, const float* y, const float* weights, int64_t weight_stride, float offset,
                  int n_rows, int64_t dim) {
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    launch(runtime, add_weighted_kernel, grid_for(dim, n), kThreads, 0, x + row * dim, y + row * dim,
           weights + row * weight_stride, weight_stride, offset, dim);
  }
}

void rescale_to_norm(Runtime& runtime, float* x, const float* y, int n_rows, int64_t dim) {
  if (n_rows == 0) return;
  launch(runtime, match_length_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kRowThreads, sizeof(Sums), x, y, dim);
}

void gaussian_topk(Runtime& runtime, float* x, float deviations, int n_rows, int64_t dim) {
  if (n_rows == 0) return;
  launch(runtime, keep_outliers_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kRowThreads, sizeof(Sums), x,
         deviations, dim);
}

void copy_rows(Runtime& runtime, const float* x, int64_t x_stride, int n_rows, int64_t dim, float* out) {
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    launch(runtime, copy_rows_kernel, grid_for(dim, n), kThreads, 0, x + row * x_stride, x_stride, dim,
           out + row * dim);
  }
}

void gated(Runtime& runtime, const Gating& gating, const float* gate, const float* up, int64_t count, float* out) {
  if (count == 0) return;
  if (count % 4 == 0 && in_quads(gate) && in_quads(up) && in_quads(out))
    launch(runtime, gated_kernel<Floats4>, grid_for(count / 4), kThreads, 0, gating, quads(gate), quads(up), count / 4,
           quads(out));
  else
    launch(runtime, gated_kernel<float>, grid_for(count), kThreads, 0, gating, gate, up, count, out);
}

void gated_input(Runtime& runtime, const Gating& gating, const float* gate, const float* up, int n_rows, int64_t dim,
                 float* out, const ProductInput& input) {
  if (n_rows == 0) return;
  const auto rows = static_cast<unsigned>(n_rows);
  const auto pieces = [&](int64_t filled, int threads) {
    return static_cast<unsigned>((filled + threads - 1) / threads);
  };
  switch (input.form) {
    case InputForm::kBf16:
      return launch(runtime, gated_pieces_kernel, dim3{(rows + 7) / 8, pieces(int64_t{input.blocks} * 8, kPieces), 1},
                    kThreads, 0, gating, quads(gate), quads(up), n_rows, dim / 4, quads(out), input);
    case InputForm::kF16:
      return launch(runtime, gated_row_kernel, dim3{rows, 1, 1}, kRowThreads, sizeof(Sums), gating, quads(gate),
                    quads(up), dim / 4, quads(out), input);
    case InputForm::kInt8:
      return launch(runtime, gated_blocks_kernel, dim3{rows, pieces(int64_t{input.blocks} * 8, kThreads), 1}, kThreads,
                    0, gating, quads(gate), quads(up), dim / 4, quads(out), input);
    case InputForm::kFloats: return gated(runtime, gating, gate, up, int64_t{n_rows} * dim, out);
  }
}

void scale(Runtime& runtime, float* x, int64_t count, float factor) {
  if (count == 0) return;
  if (count % 4 == 0 && in_quads(x))
    launch(runtime, scale_kernel<Floats4>, grid_for(count / 4), kThreads, 0, quads(x), count / 4, factor);
  else
    launch(runtime, scale_kernel<float>, grid_for(count), kThreads, 0, x, count, factor);
}

void soft_cap(Runtime& runtime, float* x, int64_t count, float cap) {
  if (count == 0) return;
  if (count % 4 == 0 && in_quads(x))
    launch(runtime, soft_cap_kernel<Floats4>, grid_for(count / 4), kThreads, 0, quads(x), count / 4, cap);
  else
    launch(runtime, soft_cap_kernel<float>, grid_for(count), kThreads, 0, x, count, cap);
}

void clamp(Runtime& runtime, float* x, int64_t count, float limit) {
  if (count == 0) return;
  launch(runtime, clamp_kernel, grid_for(count), kThreads, 0, x, count, limit);
}

void add_rows(Runtime& runtime, float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) {
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    const float* const gates = gate ? gate + row : nullptr;
    float* const to = x + row * dim;
    const float* const from = y + row * dim;
    if (dim % 4 == 0 && in_quads(to) && in_quads(from))
      launch(runtime, add_rows_kernel<Floats4>, grid_for(dim / 4, n), kThreads, 0, quads(to), quads(from), factor,
             gates, dim / 4);
    else
      launch(runtime, add_rows_kernel<float>, grid_for(dim, n), kThreads, 0, to, from, factor, gates, dim);
  }
}

void gather_rows(Runtime& runtime, const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) {
  for (int64_t row = 0; row < n_rows; row += kMaxGridRows) {
    const auto n = static_cast<unsigned>(std::min<int64_t>(n_rows - row, kMaxGridRows));
    float* const to = out + row * dim;
    if (dim % 4 == 0 && in_quads(x) && in_quads(to))
      launch(runtime, gather_kernel<Floats4>, grid_for(dim / 4, n), kThreads, 0, quads(x), rows + row, dim / 4,
             quads(to));
    else
      launch(runtime, gather_kernel<float>, grid_for(dim, n), kThreads, 0, x, rows + row, dim, to);
  }
}

}  // namespace monolith::cuda
