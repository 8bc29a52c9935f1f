// A gated network and experts side by side, each between norms of its own: x += post_norm(norm_1(network(pre_norm(x))) +
// norm_2(experts(pre_norm_2(x)))). The router reads x past a norm whose weights are factors, over sqrt(n_embd).
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
