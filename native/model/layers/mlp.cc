#include "model/layers/mlp.h"

namespace monolith {

void Mlp::run(StepRows& rows, bool) const {
  const NetworkWeights& own = weights_.network;
  const float* const x = residual_.read(rows, weights_.ffn_norm);
  float* const inner = buffers_.up;
  const MatmulTarget up{own.up.get(), inner, layer_.n_ff, own.up_bias};
  operations_.matmul({&up, 1}, x, rows.count, residual_.last_use());
  const int64_t count = int64_t{rows.count} * layer_.n_ff;
  if (params_.activation == Activation::kXielu)
    operations_.xielu(layer_.xielu, inner, count);
  else
    operations_.activate(params_.activation, inner, count);
  const MatmulTarget down{own.down.get(), residual_.target(rows), params_.n_embd, own.down_bias, residual_.is_direct()};
  operations_.matmul({&down, 1}, inner, rows.count, InputUse::kLast);
  residual_.add(weights_.ffn_post_norm, rows);
}

}  // namespace monolith
