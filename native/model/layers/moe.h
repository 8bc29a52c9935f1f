// MoE blocks: experts that replace a dense feed-forward network or run in parallel with one.
#pragma once

#include "model/layers/feed_forward.h"

namespace monolith {

// Returns the experts in the form that the backend's operations expect.
Mixture mixture_of(const HyperParams& params, const LayerParams& layer, const ExpertWeights& experts);

// Experts instead of a dense feed-forward network, optionally with a shared expert.
class ExpertMixture final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
  Mixture mixture() const { return mixture_of(params_, layer_, weights_.experts); }
  // Returns the second mixture, which reads the output of mixture(). Only for models with
  // ExpertParams::experts_per_chunk.
  Mixture chunk_mixture() const;
};

// A gated MLP and experts in parallel, each between its own pair of norms: x += post_norm(norm_1(network(pre_norm(x)))
// + norm_2(experts(pre_norm_2(x)))). The router reads x after an RMSNorm whose factors are divided by sqrt(n_embd).
class NetworkAndExperts final : public FeedForward {
 public:
  using FeedForward::FeedForward;
  void run(StepRows& rows, bool last) const override;
  Mixture mixture() const { return mixture_of(params_, layer_, weights_.experts); }
};

}  // namespace monolith
