// Test cases for vision-encoder attention: inputs, and expected results in double precision. For tests only.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/random_floats.h"

namespace monolith::testing {

// Each row attends only to the rows in its own window.
struct EncoderAttentionCase {
  int n_rows, n_heads, head_dim;
  std::vector<int32_t> starts, limits;
  std::vector<float> q, k, v;

  EncoderAttentionCase(int rows, int heads, int dim, const std::vector<int>& windows);

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  double expected(int row, int head, int d) const;
};

}  // namespace monolith::testing
