#include "backend/cuda/streams/streams.h"

#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kRowThreads = 32, kThreads = 256;

MONOLITH_DEVICE double weight_of(double x) { return 1 / (1 + exp(-x)); }

// Normalizes m[from][to], which initially contains logits: a softmax over `to`, followed by mix.iterations rounds of
// Sinkhorn normalization, which alternate between `from` and `to` so that both kinds of sums approach one.
MONOLITH_DEVICE void normalize(const HyperConnections& mix, double (&m)[kMaxStreams][kMaxStreams]) {
  const int n = mix.n_streams;
  const double eps = mix.eps;
  for (int from = 0; from < n; ++from) {
    double top = m[from][0], sum = 0;
    for (int to = 1; to < n; ++to) top = m[from][to] > top ? m[from][to] : top;
    for (int to = 0; to < n; ++to) sum += m[from][to] = exp(m[from][to] - top);
    for (int to = 0; to < n; ++to) m[from][to] = m[from][to] / sum + eps;
  }
  for (int turn = 0; turn < mix.iterations; ++turn) {
    for (int from = 0; from < n && turn > 0; ++from) {
      double sum = eps;
      for (int to = 0; to < n; ++to) sum += m[from][to];
      for (int to = 0; to < n; ++to) m[from][to] /= sum;
    }
    for (int to = 0; to < n; ++to) {
      double sum = eps;
      for (int from = 0; from < n; ++from) sum += m[from][to];
      for (int from = 0; from < n; ++from) m[from][to] /= sum;
    }
  }
}

// `count` is the number of mixing values per token.
__global__ void __launch_bounds__(kRowThreads)
    weigh_kernel(const HyperConnections mix, int64_t count, float* numbers, int n_rows) {
  start_after_inputs();
  const int row = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x), n = mix.n_streams;
  if (row >= n_rows) return;
  float* const own = numbers + row * count;
  const auto logit = [&](int part, int i) {
    return static_cast<double>(own[i]) * static_cast<double>(mix.scale[part]) + static_cast<double>(mix.base[i]);
  };
  for (int s = 0; s < n; ++s) own[s] = static_cast<float>(weight_of(logit(0, s)) + static_cast<double>(mix.eps));
  if (mix.reads_only) return;
  double between[kMaxStreams][kMaxStreams];
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) between[from][to] = logit(2, (2 + from) * n + to);
  for (int s = 0; s < n; ++s) own[n + s] = static_cast<float>(2 * weight_of(logit(1, n + s)));
  normalize(mix, between);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to) own[(2 + from) * n + to] = static_cast<float>(between[from][to]);
}

__global__ void __launch_bounds__(kThreads)
    read_kernel(int n_streams, int64_t count, const float* numbers, const float* streams, int64_t dim, float* out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (i >= dim) return;
  float sum = 0;
  for (int s = 0; s < n_streams; ++s)
    sum = fmaf(numbers[row * count + s], streams[(row * n_streams + s) * dim + i], sum);
  out[row * dim + i] = sum;
}

__global__ void __launch_bounds__(kThreads)
    write_kernel(int n_streams, int64_t count, const float* numbers, const float* x, int64_t dim, float* streams) {
  start_after_inputs();
  const int64_t row = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (i >= dim) return;
  const int n = n_streams;
  const float* const own = numbers + row * count;
  float* const at = streams + row * n * dim + i;
  float before[kMaxStreams];
  MONOLITH_UNROLL
  for (int s = 0; s < kMaxStreams; ++s) before[s] = s < n ? at[s * dim] : 0.0f;
  const float added = x[row * dim + i];
  for (int to = 0; to < n; ++to) {
    float sum = added * own[n + to];
    MONOLITH_UNROLL
    for (int from = 0; from < kMaxStreams; ++from)
      if (from < n) sum = fmaf(own[(2 + from) * n + to], before[from], sum);
    at[to * dim] = sum;
  }
}

dim3 grid_for(int n_rows, int64_t dim) {
  return {static_cast<unsigned>(n_rows), static_cast<unsigned>((dim + kThreads - 1) / kThreads), 1};
}

}  // namespace

void hyper_connection_weights(Runtime& runtime, const HyperConnections& mix, float* numbers, int n_rows) {
  const auto blocks = static_cast<unsigned>((n_rows + kRowThreads - 1) / kRowThreads);
  launch(runtime, weigh_kernel, dim3{blocks, 1, 1}, kRowThreads, 0, mix, mix.numbers(), numbers, n_rows);
}

void read_streams(Runtime& runtime, const HyperConnections& mix, const float* numbers, const float* streams, int n_rows,
                  int64_t dim, float* out) {
  launch(runtime, read_kernel, grid_for(n_rows, dim), kThreads, 0, mix.n_streams, mix.numbers(), numbers, streams, dim,
         out);
}

void write_streams(Runtime& runtime, const HyperConnections& mix, const float* numbers, const float* x, int n_rows,
                   int64_t dim, float* streams) {
  launch(runtime, write_kernel, grid_for(n_rows, dim), kThreads, 0, mix.n_streams, mix.numbers(), numbers, x, dim,
         streams);
}

}  // namespace monolith::cuda
