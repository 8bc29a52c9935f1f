// Norms of rows, as a network has them.
#pragma once

#include "backend/operations.h"
#include "model/model.h"

namespace monolith {

struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;  // added behind; null: none
};

// out[row] = norm(x[row]). In place allowed.
void apply_norm(const HyperParams& params, const NormWeights& weights, Operations& operations, const float* x,
                int n_rows, int64_t dim, float* out);

}  // namespace monolith
