#include "model/layers/norm.h"

namespace monolith {

void apply_norm(const HyperParams& params, const NormWeights& weights, Operations& operations, const float* x,
                int n_rows, int64_t dim, float* out) {
  if (params.norm == NormKind::kLayer)
    return operations.layer_norm(x, weights.weight, weights.bias, params.norm_eps, n_rows, dim, out);
  operations.rms_norm(x, weights.weight, params.norm_eps, n_rows, dim, out);
  if (weights.bias != nullptr) operations.add_bias(out, weights.bias, n_rows, dim);
}

}  // namespace monolith
