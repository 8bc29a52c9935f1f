#include "model/layers/feed_forward.h"

namespace monolith {

void run_gated_mlp(const HyperParams& params, const LayerParams& layer, const NetworkWeights& weights, int64_t n_ff,
                   Operations& operations, const Activations& activations, const float* x, RowCount rows, float* out,
                   bool add, InputUse use) {
  float* const gate = activations.gate;
  float* const up = activations.up;
  if (weights.gate == nullptr) {  // A shared expert without a gate.
    const MatmulTarget inner{weights.up.get(), gate, n_ff, weights.up_bias};
    operations.matmul({&inner, 1}, x, rows, use);
    operations.activate(params.activation, gate, rows, n_ff);
    const MatmulTarget target{weights.down.get(), out, params.n_embd, weights.down_bias, add};
    return operations.matmul({&target, 1}, gate, rows, InputUse::kLast);
  }
  const MatmulTarget gate_and_up[] = {
      {weights.gate.get(), gate, n_ff, weights.gate_bias},
      {weights.up.get(), up, n_ff, weights.up_bias},
  };
  operations.matmul(gate_and_up, x, rows, use);
  if (layer.sparse_deviations > 0) operations.gaussian_topk(gate, layer.sparse_deviations, rows, n_ff);
  operations.gated({params.activation, layer.gate_limit, params.limits_input}, gate, up, rows, n_ff, gate);
  const MatmulTarget target{weights.down.get(), out, params.n_embd, weights.down_bias, add};
  operations.matmul({&target, 1}, gate, rows, InputUse::kLast);
}

void GatedMlp::run(StepRows& rows, bool) const {
  const float* const x = residual_.read(rows, weights_.ffn_norm);
  run_gated_mlp(params_, layer_, weights_.network, layer_.n_ff, operations_, buffers_, x, rows.count,
                residual_.target(rows), residual_.is_direct(), residual_.last_use());
  residual_.add(weights_.ffn_post_norm, rows);
}

void Mlp::run(StepRows& rows, bool) const {
  const NetworkWeights& own = weights_.network;
  const float* const x = residual_.read(rows, weights_.ffn_norm);
  float* const inner = buffers_.up;
  const MatmulTarget up{own.up.get(), inner, layer_.n_ff, own.up_bias};
  operations_.matmul({&up, 1}, x, rows.count, residual_.last_use());
  if (params_.activation == Activation::kXielu)
    operations_.xielu(layer_.xielu, inner, rows.count, layer_.n_ff);
  else
    operations_.activate(params_.activation, inner, rows.count, layer_.n_ff);
  const MatmulTarget down{own.down.get(), residual_.target(rows), params_.n_embd, own.down_bias, residual_.is_direct()};
  operations_.matmul({&down, 1}, inner, rows.count, InputUse::kLast);
  residual_.add(weights_.ffn_post_norm, rows);
}

}  // namespace monolith
