// An MoE block: experts in place of a dense feed-forward network, optionally with a shared expert.
#pragma once

#include "model/layers/feed_forward.h"

namespace monolith {

Mixture mixture_of(const HyperParams& params, const LayerParams& layer, const ExpertWeights& experts);

class ExpertMixture final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
  // The experts in the form that the backend's operations take.
  Mixture mixture() const { return mixture_of(params_, layer_, weights_.experts); }
};

}  // namespace monolith
