// A dense gated MLP: x += scale * post_norm(W_down (activation(W_gate h) * W_up h)), where h = pre_norm(x).
#pragma once

#include "model/layers/feed_forward.h"

namespace monolith {

// Computes out = W_down (activation(W_gate x) * W_up x), or adds it to `out`, with the layer's limit and sparsity.
// `use` states whether x is read again later.
void run_gated_mlp(const HyperParams& params, const LayerParams& layer, const NetworkWeights& weights, int64_t n_ff,
                   Operations& operations, const Activations& activations, const float* x, int n_rows, float* out,
                   bool add, InputUse use);

class GatedMlp final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
};

}  // namespace monolith
