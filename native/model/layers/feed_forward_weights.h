// Weights of dense feed-forward networks and of MoE blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights of a dense feed-forward network or of a shared expert.
struct NetworkWeights {
  std::unique_ptr<Matrix> gate, up, down;  // `gate` is null for a network without a gate.
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  const float* sub_norm = nullptr;  // See HyperParams::sub_norms.
};

// Lists the gate, up and down matrices. The gate is listed only if the layer has one.
void list_weights(const LayerParams& layer, NetworkWeights& weights, WeightList& list);

// Weights of an MoE block.
struct ExpertWeights {
  std::unique_ptr<Matrix> router;                  // Shape [n_experts, n_embd].
  std::unique_ptr<Matrix> to_latent, from_latent;  // Projections for ExpertParams::latent.
  const float* router_bias = nullptr;              // Shape [n_experts].
  const float* choice_bias = nullptr;   // Added to the router scores only for selecting experts: [n_experts].
  std::vector<int32_t> of_token;        // See TokenExperts::of_token.
  NetworkWeights all;                   // The matrices of all experts (see Mixture).
  NetworkWeights chunks;                // The same for ExpertParams::experts_per_chunk.
  std::unique_ptr<Matrix> shared_gate;  // Shape [1, n_embd].
  // Only for experts in parallel with a dense network (FeedForwardKind::kGatedAndMixture): the norm of the experts'
  // input, the norms of both outputs, the weights of the norm of the router's input, and a scale per expert.
  NormWeights norm, post_norm, network_post_norm;
  const float* router_scale = nullptr;   // Shape [n_embd].
  const float* expert_scales = nullptr;  // Shape [n_experts].
};

// `shared` receives the weights of the shared expert, if there is one.
void list_weights(const LayerParams& layer, ExpertWeights& weights, NetworkWeights& shared, WeightList& list);

}  // namespace monolith
