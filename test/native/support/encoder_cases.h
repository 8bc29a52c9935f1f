// Test cases for vision-encoder attention: inputs, and expected results in double precision. Tests only.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/random_floats.h"

namespace monolith::testing {

// Rows that each attend only to the rows of their own window.
struct EncoderAttentionCase {
  int n_rows, n_heads, head_dim;
  std::vector<int32_t> starts, limits;
  std::vector<float> q, k, v;

  EncoderAttentionCase(int rows, int heads, int dim, const std::vector<int>& windows)
      : n_rows(rows),
        n_heads(heads),
        head_dim(dim),
        q(random_floats(size_t(rows) * heads * dim, 1, 2.0f)),
        k(random_floats(q.size(), 2)),
        v(random_floats(q.size(), 3)) {
    int begin = 0;
    for (const int length : windows) {
      starts.insert(starts.end(), size_t(length), begin);
      begin += length;
      limits.insert(limits.end(), size_t(length), begin);
    }
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  double expected(int row, int head, int d) const {
    const int64_t stride = int64_t{n_heads} * head_dim;
    double sum = 0, weighted = 0;
    for (int key = starts[size_t(row)]; key < limits[size_t(row)]; ++key) {
      double score = 0;
      for (int i = 0; i < head_dim; ++i)
        score += double(q[size_t(row * stride + head * head_dim + i)]) * k[size_t(key * stride + head * head_dim + i)];
      const double weight = std::exp(score * scale());
      sum += weight;
      weighted += weight * v[size_t(key * stride + head * head_dim + d)];
    }
    return weighted / sum;
  }
};

}  // namespace monolith::testing
