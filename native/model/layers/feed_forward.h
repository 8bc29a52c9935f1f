// Base class of the feed-forward blocks: holds their inputs and connects them to the residual stream.
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

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
  const HyperParams& params_;
  const LayerParams& layer_;
  const LayerWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
};

}  // namespace monolith
