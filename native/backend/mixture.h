// Mixtures of experts as an operation takes them.
#pragma once

#include <cstdint>

#include "backend/matrix.h"

namespace monolith {

// Of a feed-forward network: of its gate, act(gate) * up, or of a plain one.
enum class Activation : uint8_t {
  kSilu,  // x / (1 + exp(-x))
  kGelu,  // x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3): GELU in its tanh form
  // 1 / (1 + exp(-x)): what scales an attention layer's output.
  kSigmoid,
  // Of a mixture only: x / (1 + exp(-1.702 x)) * (up + 1), x at most 7 and up within -7 and 7 (gpt-oss).
  kClampedSilu,
  kIdentity,     // x: a product of two rows
  kReluSquared,  // max(x, 0)^2; of a network without a gate only
  kQuickGelu,    // x / (1 + exp(-1.702 x)); not of experts
  kXielu,        // Operations::xielu(); likewise, and not of experts
};

// How the numbers inside a gated network are gated.
struct Gating {
  Activation activation = Activation::kSilu;
  // Above 0: the gate's activation is at most that, and up is within -limit and limit.
  float limit = 0.0f;
  bool limits_input = false;  // the gate itself is at most that, and what its activation makes of it counts
  constexpr Gating() = default;
  constexpr Gating(Activation kind, float most = 0.0f, bool of_input = false)
      : activation(kind), limit(most), limits_input(of_input) {}
};

// A mixture of experts has so many rows of each weight per expert, or a multiple: where one expert's rows
// end, the next one's begin without a gap in any backend's layout.
inline constexpr int kExpertRowMultiple = 16;

// What the scratch of mixture() is sized for; all 0: there is none.
struct MixtureShape {
  int n_experts = 0;
  int n_used = 0;  // experts that compute each row
  int n_embd = 0;  // values of a row
  int n_ff = 0;    // values inside an expert
  bool operator==(const MixtureShape&) const = default;
};

enum class RouterScore : uint8_t {
  kSoftmax,       // over all experts
  kSigmoid,       // of each logit
  kRootSoftplus,  // likewise, sqrt(log(1 + exp(x)))
};

// How a row chooses among experts, and how much each counts: by its score, whatever it was chosen by.
struct Router {
  RouterScore score = RouterScore::kSoftmax;
  // Backend memory, n_experts: added to the scores for the choice only (DeepSeek-V3, arXiv:2412.19437); null: none.
  const float* bias = nullptr;
  // Experts are chosen from `groups_used` of `groups` groups of equal size: those whose best two have the largest
  // sum. A group has two experts or more. 1 and 1: from all.
  int groups = 1, groups_used = 1;
  bool normalized = true;  // scores are divided by the sum of those chosen
  float scale = 1.0f;      // then all are multiplied by this
  // Backend memory, n_experts: and each expert's by its own; null: not.
  const float* expert_scales = nullptr;
};

// Experts that a row's token has, whatever its logits are, which say only how much each counts. Host memory; null: rows
// choose.
struct TokenExperts {
  const int32_t* of_token = nullptr;  // [n_vocab][n_used]
  const int32_t* tokens = nullptr;    // row r's is tokens[r], or with `rows` tokens[rows[r]]
  const int32_t* rows = nullptr;
};

// One layer's mixture of experts. Matrices hold all experts, one below the other; biases likewise, in backend memory,
// null where there are none.
struct Mixture {
  MixtureShape shape;
  const Matrix* gate;  // [n_experts * n_ff, n_embd]; null: down (activation(up x))
  const Matrix* up;    // the same
  const Matrix* down;  // [n_experts * n_embd, n_ff]
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  Gating activation = {};
  Router router = {};
  TokenExperts by_token = {};
  bool weighs_input = false;  // a row times its weight goes into the expert, and the result counts as it is (Llama 4)
};

}  // namespace monolith
