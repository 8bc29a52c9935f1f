// Hyper-connections (HyperConnections): computes the mixing coefficients, and reads and writes the residual streams.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"

namespace monolith {
namespace {

constexpr int64_t kColumns = 256;  // Columns of all streams that together fit in the L1 cache.

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// m has the shape [from][to] and initially contains logits.
void normalize(const HyperConnections& mix, double (&m)[kMaxStreams][kMaxStreams]) {
  const int n = mix.n_streams;
  const double eps = mix.eps;
  for (int from = 0; from < n; ++from) {
    const double top = *std::max_element(m[from], m[from] + n);
    double sum = 0;
    for (int to = 0; to < n; ++to) sum += m[from][to] = std::exp(m[from][to] - top);
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

}  // namespace

void CpuBackend::hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) {
  const int n = mix.n_streams;
  assert(n >= 1 && n <= kMaxStreams);
  pool_.parallel_for(rows.value(), 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* const own = numbers + row * mix.numbers();
      const auto logit = [&](int part, int i) { return double{own[i]} * mix.scale[part] + mix.base[i]; };
      for (int s = 0; s < n; ++s) own[s] = static_cast<float>(sigmoid(logit(0, s)) + mix.eps);
      if (mix.reads_only) continue;
      double between[kMaxStreams][kMaxStreams];
      for (int from = 0; from < n; ++from)
        for (int to = 0; to < n; ++to) between[from][to] = logit(2, (2 + from) * n + to);
      for (int s = 0; s < n; ++s) own[n + s] = static_cast<float>(2 * sigmoid(logit(1, n + s)));
      normalize(mix, between);
      for (int from = 0; from < n; ++from)
        for (int to = 0; to < n; ++to) own[(2 + from) * n + to] = static_cast<float>(between[from][to]);
    }
  });
}

void CpuBackend::read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows,
                              int64_t dim, float* out) {
  const int n = mix.n_streams;
  pool_.parallel_for(rows.value(), 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* const to = out + row * dim;
      std::memset(to, 0, static_cast<size_t>(dim) * sizeof(float));
      for (int s = 0; s < n; ++s)
        ops_.add_scaled(to, streams + (row * n + s) * dim, numbers[row * mix.numbers() + s], nullptr, dim);
    }
  });
}

void CpuBackend::write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows,
                               int64_t dim, float* streams) {
  const int n = mix.n_streams;
  assert(n >= 1 && n <= kMaxStreams);
  pool_.parallel_for(rows.value(), 4, [&](int64_t begin, int64_t end, int) {
    alignas(64) float sums[kMaxStreams * kColumns];
    for (int64_t row = begin; row < end; ++row) {
      const float* const own = numbers + row * mix.numbers();
      for (int64_t first = 0; first < dim; first += kColumns) {
        const int64_t columns = std::min(kColumns, dim - first);
        const auto stream = [&](int s) { return streams + (row * n + s) * dim + first; };
        std::memset(sums, 0, sizeof sums);
        for (int to = 0; to < n; ++to) {
          float* const sum = sums + to * kColumns;
          ops_.add_scaled(sum, x + row * dim + first, own[n + to], nullptr, columns);
          for (int from = 0; from < n; ++from)
            ops_.add_scaled(sum, stream(from), own[(2 + from) * n + to], nullptr, columns);
        }
        for (int to = 0; to < n; ++to) std::copy_n(sums + to * kColumns, columns, stream(to));
      }
    }
  });
}

}  // namespace monolith
