// Experts in the place of a layer's feed-forward network, with or without a network that all rows pass besides.
#pragma once

#include "model/layers/layer_part.h"
#include "model/weights.h"

namespace monolith {

class ExpertMixture final : public LayerPart {
 public:
  ExpertMixture(const HyperParams& params, const LayerWeights& weights, Operations& operations,
                const Activations& activations)
      : params_(params), weights_(weights), operations_(operations), buffers_(activations),
        residual_(params, operations, activations) {}

  void run(StepRows& rows, bool last) const override;
  // As operations take it.
  Mixture mixture() const;

 private:
  const HyperParams& params_;
  const LayerWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
};

}  // namespace monolith
