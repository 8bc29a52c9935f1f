// The part of a layer that is a state space of Mamba-2 (backend/recurrence.h): x, B and C past a short convolution, and
// the result past a gate and a norm of groups.
#pragma once

#include "model/layers/layer_part.h"

namespace monolith {

class Mamba2 final : public LayerPart {
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
  const InputUse use_;  // of the norm: attention beside it reads it again
  StateSpace space_;
  Convolution convolution_;
  LayerSlots state_, inputs_;  // of the space and of the convolution
};

}  // namespace monolith
