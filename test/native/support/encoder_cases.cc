#include "support/encoder_cases.h"

namespace monolith::testing {

EncoderAttentionCase::EncoderAttentionCase(int rows, int heads, int dim, const std::vector<int>& windows)
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

double EncoderAttentionCase::expected(int row, int head, int d) const {
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

}  // namespace monolith::testing
