// A gated MLP and experts in parallel, each between its own norms: x += post_norm(norm_1(network(pre_norm(x))) +
// norm_2(experts(pre_norm_2(x)))). The router reads x through an RMSNorm with factors divided by sqrt(n_embd).
#pragma once

#include "model/layers/expert_mixture.h"

namespace monolith {

class NetworkAndExperts final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
  Mixture mixture() const { return mixture_of(params_, layer_, weights_.experts); }
};

}  // namespace monolith
