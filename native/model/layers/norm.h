// Normalization of rows: RMSNorm or LayerNorm, depending on the model.
#pragma once

#include "backend/operations.h"
#include "model/model.h"

namespace monolith {

struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;  // Added after the weight has been applied; null if there is no bias.
};

// Computes out[row] = norm(x[row]). `out` may be `x`.
inline void apply_norm(const HyperParams& params, const NormWeights& weights, Operations& operations, const float* x,
                       RowCount rows, int64_t dim, float* out) {
  if (params.norm == NormKind::kLayer)
    return operations.layer_norm(x, weights.weight, weights.bias, params.norm_eps, rows, dim, out);
  operations.rms_norm(x, weights.weight, params.norm_eps, rows, dim, out);
  if (weights.bias != nullptr) operations.add_bias(out, weights.bias, rows, dim);
}

}  // namespace monolith
