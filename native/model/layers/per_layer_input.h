// Inputs of each layer's own: what a row's token has in a table, and a projection of its embedding. Behind the layer
// x += post_norm(W (activation(W_gate x) * input)).
#pragma once

#include "model/layers/layer_part.h"

namespace monolith {

// Of all layers, into activations.per_layer: (norm(W embedding / sqrt(n_embd)) + sqrt(dim) * table[token]) / sqrt(2).
// `embedding`: of the rows, scaled as the network takes it.
void compute_per_layer_inputs(const HyperParams& params, const PerLayerTables& weights, Operations& operations,
                              const Activations& activations, std::span<const int32_t> tokens, const float* embedding);

// What a layer makes of `x` and its input, in activations.branch, past its norm.
void run_per_layer_input(const LayerContext& context, const StepRows& rows, const float* x);

class PerLayerInput final : public LayerPart {
 public:
  explicit PerLayerInput(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

// The residual stream behind a layer, scaled.
class OutputScale final : public LayerPart {
 public:
  explicit OutputScale(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool) const override {
    context_.operations.scale(rows.x, int64_t{rows.count} * context_.params.n_embd, context_.layer.output_scale);
  }

 private:
  const LayerContext context_;
};

}  // namespace monolith
