#include "model/layers/per_layer_input.h"

#include <cmath>
#include <numbers>

namespace monolith {

void compute_per_layer_inputs(const HyperParams& params, const PerLayerTables& weights, Operations& operations,
                              const Activations& activations, std::span<const int32_t> tokens, RowCount rows,
                              const float* embedding) {
  const int dim = params.per_layer.dim;
  const int64_t all = per_layer_dim(params);
  float* const inputs = activations.per_layer;
  float* const projected = activations.per_layer_inner;
  operations.embed(*weights.embedding, tokens.data(), rows, inputs);
  operations.scale(inputs, rows, all, std::sqrt(static_cast<float>(dim)));
  const MatmulTarget target{weights.projection.get(), projected, all};
  operations.matmul({&target, 1}, embedding, rows);
  operations.scale(projected, rows, all, 1.0f / std::sqrt(static_cast<float>(params.n_embd)));
  operations.rms_norm_heads(projected, all, weights.norm, params.norm_eps, rows, params.n_layers, dim);
  operations.add_rows(inputs, projected, 1.0f, nullptr, rows, all);
  operations.scale(inputs, rows, all, static_cast<float>(1.0 / std::numbers::sqrt2));
}

void run_per_layer_input(const LayerContext& context, const StepRows& rows, const float* x) {
  const HyperParams& p = context.params;
  const PerLayerInputWeights& weights = context.weights.per_layer;
  Operations& operations = context.operations;
  const int64_t dim = p.per_layer.dim;
  float* const gate = context.activations.per_layer_inner;
  float* const input = gate + context.max_rows * dim;
  float* const out = context.activations.branch;
  const MatmulTarget inner{weights.gate.get(), gate, dim};
  operations.matmul({&inner, 1}, x, rows.count);
  operations.copy_rows(rows.per_layer + context.index * dim, per_layer_dim(p), rows.count, dim, input);
  operations.gated(p.activation, gate, input, rows.count, dim, gate);
  const MatmulTarget outer{weights.projection.get(), out, p.n_embd};
  operations.matmul({&outer, 1}, gate, rows.count, InputUse::kLast);
  apply_norm(p, weights.post_norm, operations, out, rows.count, p.n_embd, out);
}

void PerLayerInput::run(StepRows& rows, bool) const {
  run_per_layer_input(context_, rows, rows.x);
  context_.operations.add_rows(rows.x, context_.activations.branch, 1.0f, nullptr, rows.count, context_.params.n_embd);
}

}  // namespace monolith
