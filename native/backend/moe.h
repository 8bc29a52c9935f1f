// Parameters of mixture-of-experts (MoE) operations.
#pragma once

#include <cstdint>

#include "backend/matrix.h"

namespace monolith {

// Activation of a feed-forward network. A gated network computes act(gate) * up.
enum class Activation : uint8_t {
  kSilu,  // SiLU: x / (1 + exp(-x)).
  kGelu,  // GELU, tanh approximation: x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
  // Sigmoid: 1 / (1 + exp(-x)). Gates the output of attention layers.
  kSigmoid,
  // MoE only: x / (1 + exp(-1.702 x)) * (up + 1), where x is clamped to at most 7 and `up` to the range -7 .. 7
  // (gpt-oss).
  kClampedSilu,
  kIdentity,     // No activation: the product of two rows.
  kRelu,         // ReLU: max(x, 0). Only for networks with a gate.
  kReluSquared,  // Squared ReLU: max(x, 0)^2. Only for networks without a gate.
  kQuickGelu,    // Quick GELU: x / (1 + exp(-1.702 x)). Not for experts.
  kXielu,        // xIELU, see Operations::xielu(). Only for networks without a gate, and not for experts.
};

// How a gated network combines the outputs of the gate and up matrices.
struct Gating {
  Activation activation = Activation::kSilu;
  // If greater than 0, the gate's activation is clamped to at most `limit`, and `up` to the range -limit .. limit.
  float limit = 0.0f;
  bool limits_input = false;  // Apply the upper bound to the gate itself, before its activation.
  constexpr Gating() = default;
  constexpr Gating(Activation kind, float most = 0.0f, bool of_input = false)
      : activation(kind), limit(most), limits_input(of_input) {}
};

// In every weight matrix of an MoE layer, the number of rows per expert is a multiple of this. In every backend's
// layout, the rows of one expert are therefore followed directly by the rows of the next expert.
inline constexpr int kExpertRowMultiple = 16;

// Sizes of the scratch memory of mixture(). All 0 if the model has no MoE layers.
struct MixtureShape {
  int n_experts = 0;
  int n_used = 0;  // Experts used per token.
  int n_embd = 0;  // Elements of a token's hidden state.
  int n_ff = 0;    // Hidden size of an expert.
  bool operator==(const MixtureShape&) const = default;
};

enum class RouterScore : uint8_t {
  kSoftmax,       // Softmax over the logits of all experts.
  kSigmoid,       // Sigmoid of each logit.
  kRootSoftplus,  // sqrt(log(1 + exp(x))) of each logit.
};

// How a token's experts are selected and weighted. An expert's weight comes from its score, even if a bias influenced
// the selection.
struct Router {
  RouterScore score = RouterScore::kSoftmax;
  // Backend memory, [n_experts]: added to the scores for the selection only (DeepSeek-V3, arXiv:2412.19437). Null = no
  // bias.
  const float* bias = nullptr;
  // Group-limited routing: the experts are divided into `groups` groups of equal size, each with at least two experts,
  // and selected only from the best `groups_used` of these groups. A group's rank is determined by the sum of the
  // scores of its two best experts. 1 and 1 = no groups.
  int groups = 1, groups_used = 1;
  bool normalized = true;  // Divide the weights by the sum over the selected experts.
  float scale = 1.0f;      // Factor of all weights, applied after normalization.
  // GroveMoE: the router's logits belong to the experts of another mixture. Each run of experts_per_chunk of these
  // logits corresponds to one expert of this layer. If expert e is selected, its weight is scores[e], as in llama.cpp.
  // An expert may run twice for a token.
  int experts_per_chunk = 1;
  // Backend memory, [n_experts]: additional factor for each expert's weight. Null = no additional factors.
  const float* expert_scales = nullptr;
};

// Routing by token ID: the token alone determines its experts, and the router logits determine only their weights. The
// arrays are in host memory. If of_token is null, the router selects the experts.
struct TokenExperts {
  const int32_t* of_token = nullptr;  // Shape [n_vocab][n_used]: experts of each token ID.
  // IDs of the step's tokens. The token of row r is tokens[r], or tokens[rows[r]] if `rows` is not null.
  const int32_t* tokens = nullptr;
  const int32_t* rows = nullptr;
};

// One MoE layer. Each matrix contains the rows of all experts, one expert after another. The biases, in backend memory,
// have the same order. A null bias means no bias.
struct Mixture {
  MixtureShape shape;
  const Matrix* gate;  // Shape [n_experts * n_ff, n_embd]. Null for an ungated network: down (activation(up x)).
  const Matrix* up;    // Shape [n_experts * n_ff, n_embd].
  const Matrix* down;  // Shape [n_experts * n_embd, n_ff].
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  Gating activation = {};
  Router router = {};
  TokenExperts by_token = {};
  bool apply_router_weight_on_input =
      false;  // Apply the router weight to the expert's input instead of its output (Llama 4).
};

}  // namespace monolith
