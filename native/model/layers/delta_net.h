// A gated delta-net block. Queries, keys and values pass through a short convolution, and the delta rule updates one
// state per head (backend/recurrence.h). The result passes through a norm per head and a gate.
#pragma once

#include <array>

#include "model/layers/layer_block.h"

namespace monolith {

class DeltaNet final : public LayerBlock {
 public:
  explicit DeltaNet(const LayerContext& context);

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  void project(StepRows& rows) const;

  const HyperParams& params_;
  const DeltaNetParams& delta_;
  const DeltaNetWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  DeltaRule rule_;
  LayerSlots state_;  // State of the delta rule.
  // Applies one convolution over all channels, or three separate ones for queries, keys and values. `first` is the
  // convolution's first channel.
  struct Convolved {
    Convolution convolution;
    LayerSlots state;
    int64_t first = 0;
  };
  std::array<Convolved, 3> convolutions_;
  size_t n_convolutions_ = 0;
};

}  // namespace monolith
