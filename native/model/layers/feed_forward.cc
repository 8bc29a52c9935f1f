#include "model/layers/feed_forward.h"

namespace monolith {

void FeedForward::run_gated_mlp(const GatedMlpCall& call) const {
  const NetworkWeights& weights = call.weights;
  const RowCount rows = call.rows;
  const int64_t n_ff = call.n_ff;
  float* const gate = buffers_.gate;
  float* const up = buffers_.up;
  const MatmulTarget down{weights.down.get(), call.out, params_.n_embd, weights.down_bias, call.add_to_out};
  if (weights.gate == nullptr) {  // A shared expert without a gate.
    const MatmulTarget inner{weights.up.get(), gate, n_ff, weights.up_bias};
    operations_.matmul({&inner, 1}, call.x, rows, call.use);
    operations_.activate(params_.activation, gate, rows, n_ff);
    return operations_.matmul({&down, 1}, gate, rows, InputUse::kLast);
  }
  const MatmulTarget gate_and_up[] = {
      {weights.gate.get(), gate, n_ff, weights.gate_bias},
      {weights.up.get(), up, n_ff, weights.up_bias},
  };
  operations_.matmul(gate_and_up, call.x, rows, call.use);
  if (layer_.sparse_deviations > 0) operations_.gaussian_topk(gate, layer_.sparse_deviations, rows, n_ff);
  operations_.gated({params_.activation, layer_.gate_limit, params_.limits_input}, gate, up, rows, n_ff, gate);
  if (weights.sub_norm != nullptr) operations_.rms_norm(gate, weights.sub_norm, params_.norm_eps, rows, n_ff, gate);
  operations_.matmul({&down, 1}, gate, rows, InputUse::kLast);
}

void GatedMlp::run(StepRows& rows, bool) const {
  const float* const x = residual_.read(rows, weights_.ffn_norm);
  run_gated_mlp({.weights = weights_.network,
                 .n_ff = layer_.n_ff,
                 .x = x,
                 .rows = rows.count,
                 .out = residual_.target(rows),
                 .add_to_out = residual_.is_direct(),
                 .use = residual_.last_use()});
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
