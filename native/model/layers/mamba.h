// The Mamba block of a layer (backend/recurrence.h): x passes through a short convolution, and the steps, B and C are
// projections of the result. PLaMo 2 uses the same block with the heads of Mamba-2.
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

class Mamba final : public LayerBlock {
 public:
  explicit Mamba(const LayerContext& context);

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  void project(RowCount rows) const;

  const HyperParams& params_;
  const StateSpaceParams& shape_;
  const MambaWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  StateSpace space_;
  Convolution convolution_;
  LayerSlots state_, inputs_;  // States of the state-space model and of the convolution.
};

}  // namespace monolith
