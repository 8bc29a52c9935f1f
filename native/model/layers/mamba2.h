// The Mamba-2 block of a layer (backend/recurrence.h). x, B and C pass through a short convolution; the output passes
// through a gate and a norm per group.
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

class Mamba2 final : public LayerBlock {
 public:
  explicit Mamba2(const LayerContext& context);

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  const HyperParams& params_;
  const StateSpaceParams& shape_;
  const Mamba2Weights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const InputUse use_;  // Parallel attention reads the normalized input again.
  StateSpace space_;
  Convolution convolution_;
  LayerSlots state_, inputs_;  // States of the state-space model and of the convolution.
};

}  // namespace monolith
