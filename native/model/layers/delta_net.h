// The part of a layer that is a gated delta net: queries, keys and values past a short convolution, the delta rule over
// a state of each head (backend/recurrence.h), and the result past a norm of each head and a gate.
#pragma once

#include <array>

#include "model/layers/layer_part.h"

namespace monolith {

class DeltaNet final : public LayerPart {
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
  LayerSlots state_;  // of the rule
  // One over all channels, or one each over queries, keys and values; with their states and first channels.
  struct Convolved {
    Convolution convolution;
    LayerSlots state;
    int64_t first = 0;
  };
  std::array<Convolved, 3> convolutions_;
  size_t n_convolutions_ = 0;
};

}  // namespace monolith
