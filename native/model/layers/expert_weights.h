// What a mixture of experts needs of a file.
#pragma once

#include <memory>
#include <vector>

#include "model/layers/network_weights.h"

namespace monolith {

struct ExpertWeights {
  std::unique_ptr<Matrix> router;                  // [n_experts, n_embd]
  std::unique_ptr<Matrix> to_latent, from_latent;  // ExpertParams::latent
  const float* router_bias = nullptr;              // [n_experts]
  const float* choice_bias = nullptr;              // [n_experts]
  std::vector<int32_t> of_token;                   // TokenExperts::of_token
  NetworkWeights all;                              // see Mixture
  std::unique_ptr<Matrix> shared_gate;             // [1, n_embd]
  // Beside a network (FeedForwardKind::kGatedAndMixture): norms of the experts' input, of both results and of the
  // router's input, which has factors in the place of weights; and factors of what the experts count.
  NormWeights norm, post_norm, network_post_norm;
  const float* router_scale = nullptr;   // [n_embd]
  const float* expert_scales = nullptr;  // [n_experts]
};

// `shared`: of the network that all rows pass besides, if there is one.
void list_weights(const LayerParams& layer, ExpertWeights& weights, NetworkWeights& shared, WeightList& list);

}  // namespace monolith
