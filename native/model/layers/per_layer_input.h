// Per-layer inputs: for each token and layer, a table entry plus a projection of the token's embedding. After the
// layer, x += post_norm(W (activation(W_gate x) * input)).
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

// Computes the inputs of all layers into activations.per_layer: (norm(W embedding / sqrt(n_embd)) + sqrt(dim) *
// table[token]) / sqrt(2). `embedding` contains the scaled token embeddings.
void compute_per_layer_inputs(const HyperParams& params, const PerLayerTables& weights, Operations& operations,
                              const Activations& activations, std::span<const int32_t> tokens, RowCount rows,
                              const float* embedding);

// Computes a layer's contribution from `x` and its per-layer input, normalizes it and stores it in activations.branch.
void run_per_layer_input(const LayerContext& context, const StepRows& rows, const float* x);

class PerLayerInput final : public LayerBlock {
 public:
  explicit PerLayerInput(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool last) const override;

 private:
  const LayerContext context_;
};

// Multiplies the residual stream by a factor after a layer.
class OutputScale final : public LayerBlock {
 public:
  explicit OutputScale(const LayerContext& context) : context_(context) {}
  void run(StepRows& rows, bool) const override {
    context_.operations.scale(rows.x, rows.count, context_.params.n_embd, context_.layer.output_scale);
  }

 private:
  const LayerContext context_;
};

}  // namespace monolith
