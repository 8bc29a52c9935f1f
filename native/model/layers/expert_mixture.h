// Experts in the place of a layer's feed-forward network, with or without a network that all rows pass besides.
#pragma once

#include "model/layers/feed_forward.h"

namespace monolith {

Mixture mixture_of(const HyperParams& params, const LayerParams& layer, const ExpertWeights& experts);

class ExpertMixture final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
  // As operations take it.
  Mixture mixture() const { return mixture_of(params_, layer_, weights_.experts); }
};

}  // namespace monolith
