// Feed-forward blocks without experts, and the base class for all feed-forward blocks.
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

// Base class of the feed-forward blocks. It provides the block's input and adds the output to the residual stream.
class FeedForward : public LayerBlock {
 public:
  explicit FeedForward(const LayerContext& context)
      : params_(context.params),
        layer_(context.layer),
        weights_(context.weights),
        operations_(context.operations),
        buffers_(context.activations),
        residual_(context, context.params.parallel_residual, &context.weights.network_mix) {}

 protected:
  struct GatedMlpCall {
    const NetworkWeights& weights;
    int64_t n_ff;
    const float* x;
    RowCount rows;
    float* out;
    bool add_to_out;
    InputUse use;  // Whether x is read again later.
  };
  // Computes out = W_down (activation(W_gate x) * W_up x), or adds the result to `out`, with the layer's limit and
  // sparsity.
  void run_gated_mlp(const GatedMlpCall& call) const;

  const HyperParams& params_;
  const LayerParams& layer_;
  const LayerWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
};

// A dense gated MLP: x += scale * post_norm(W_down (activation(W_gate h) * W_up h)), where h = pre_norm(x).
class GatedMlp final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
};

// A dense feed-forward network without a gate: x += scale * post_norm(W_down activation(W_up h)), where h =
// pre_norm(x).
class Mlp final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
};

}  // namespace monolith
