// The sampling contract: how a token is chosen from a row of logits. Sampling runs on the host
// (engine/sampling/sampler.h) or on a device that supports it (DeviceSampling::can_sample). The result is a pure
// function of the task and has the same bits everywhere. This file declares only plain values, which any thread may
// use.
//
// The order is: bias and bans, penalties, constraint, temperature, top_k, top_p, min_p, draw. In detail:
// 1. A row that contains a non-finite logit has no result.
// 2. x[token] += bias. A bias of kBanBias or below, or a ban, sets the logit to minus infinity. Then for each used
//    token, x = x > 0 ? x / repetition_penalty : x * repetition_penalty, and if it was generated, x -=
//    frequency_penalty * float(generated) + presence_penalty. No operations are fused.
// 3. Constraint: tokens that are not allowed get minus infinity. If all allowed tokens are at minus infinity after step
//    2, their logits from before step 2 are used. If only one token is allowed, it is the result, regardless of its
//    logit.
// 4. With m the largest logit, each weight is w = exp((x - m) * (1 / temperature)), rounded to a multiple of 2^-34
//    (computed in float by the steps of sampler_kernels-inl.h). Sums of weights are computed in double precision, where
//    they are exact.
// 5. Tokens are ordered by descending logit and, among equals, by ascending ID. The first top_k are kept. Of these, the
//    smallest number of leading tokens is kept whose weights together reach double(top_p) times the total weight of the
//    top_k. Of these, all with w >= min_p are kept. At a temperature below kGreedyTemperature, or with top_k 1, only
//    the first token is kept.
// 6. The weights of the kept tokens add up to n units of 2^-34. These units are numbered token by token, in order of
//    ID. The result is the token that contains unit number (random * n) >> 64.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace monolith {

inline constexpr int kMaxTopLogprobs = 20;

// A logit bias of this value or less bans the token: its logit becomes minus infinity.
inline constexpr float kBanBias = -100.0f;

// Temperatures below this value mean greedy sampling. The second-best token would need a logit within 2.5e-4 of the
// best to have any weight, and 1/temperature stays far from overflow.
inline constexpr float kGreedyTemperature = 1e-5f;

// A token that occurs in the prompt or the output, to which penalties apply.
struct UsedToken {
  int32_t token;
  int32_t generated;  // Occurrences in the output; 0 = only in the prompt.
};

// One row of logits to sample from. All spans are host memory and must not change until the result is available. Every
// token in them is in [0, n_vocab).
struct SampleTask {
  const float* logits = nullptr;  // Shape [n_vocab], in the memory of the sampling device.
  uint64_t random = 0;            // Random bits that determine the draw.
  float temperature = 1.0f;
  int top_k = 0;       // 0 = top-k is off.
  float top_p = 1.0f;  // 1 = top-p is off.
  float min_p = 0.0f;
  std::span<const std::pair<int32_t, float>> bias = {};  // If a token occurs twice, both biases are added, in order.
  std::span<const int32_t> banned = {};
  float repetition_penalty = 1.0f, frequency_penalty = 0.0f, presence_penalty = 0.0f;
  std::span<const UsedToken> used = {};   // Each token at most once. Empty if no penalty is set.
  std::span<const int32_t> allowed = {};  // Ascending, without duplicates. Empty = every token is allowed.
  // Alternative to `allowed`: a mask with one bit per token, in (n_vocab + 63) / 64 words. At least one bit is set;
  // bits at n_vocab and above are clear.
  std::span<const uint64_t> mask = {};
  int32_t given = -1;  // A token to score: it is the result, without a draw. -1 = none. Not with a constraint.
  int n_top = -1;      // Logprobs to return: -1 = none, otherwise for the sampled token and the n_top best tokens.

  // Whether step 2 changes any logit.
  bool adjusts() const { return !bias.empty() || !banned.empty() || !used.empty(); }
  bool constrained() const { return !allowed.empty() || !mask.empty(); }
};

struct TopLogprob {
  int32_t token;
  float logprob;
};

// Logprobs are natural logarithms of the distribution after step 3, before the later steps. The logprob of a token with
// probability 0 is minus infinity, and such a token is not among the top logprobs.
struct SampleResult {
  int32_t token = -1;               // -1 if a logit is not finite or no token can be chosen.
  float logprob = 0;                // Set only if logprobs were requested, like the fields below.
  int n_top = 0;                    // Fewer than requested if fewer tokens have a probability above 0.
  TopLogprob top[kMaxTopLogprobs];  // Best first; among equals, the lower ID first.
};

}  // namespace monolith
