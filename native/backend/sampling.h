// Choosing a token from a row of logits, as the engine asks for it: whoever has the logits can answer, the host
// (engine/sampling/sampler.h) or a device that offers it (DeviceSampling::can_sample). The answer is a pure function of the task, the
// same bits wherever it is found. Plain values; any thread.
//
// The order: bias and bans, penalties, constraint, temperature, top_k, top_p, min_p, draw. In full:
//
//  1. A row with a logit that is not finite has no answer.
//  2. x[token] += bias; at kBanBias or below and for banned tokens it is minus infinity. Then for each used token
//     x = x > 0 ? x / repetition_penalty : x * repetition_penalty, and if it was generated
//     x -= frequency_penalty * float(generated) + presence_penalty. No operation is fused with another.
//  3. The constraint: what it does not allow is minus infinity. If all it allows is that already, it is taken from the
//     logits before step 2. A single allowed token is the answer, whatever its logit.
//  4. With m the largest, w = exp((x - m) * (1 / temperature)) rounded to a multiple of 2^-34 (in float, by the steps
//     of sampler_kernels-inl.h); sums of w are taken in double precision, where they are exact.
//  5. Kept are, in the order of logits from the largest down and of ids among equals: the first top_k; of these as many
//     as it takes for their weights to reach double(top_p) times the weight of those; of these all with w >= min_p. At
//     a temperature below kGreedyTemperature, or with top_k 1, only the first is left.
//  6. The weights of what is kept add up to n quanta of 2^-34. In the order of ids, the answer is the token in which
//     quantum number (random * n) >> 64 lies.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace monolith {

inline constexpr int kMaxTopLogprobs = 20;

// A bias of -100 or less bans its token: the logit becomes minus infinity. (Contract: -100 bans.)
inline constexpr float kBanBias = -100.0f;

// Below this a temperature is greedy: the second-best token would need a logit within 2.5e-4 of the best
// to have any weight at all, and 1/temperature stays far from overflow.
inline constexpr float kGreedyTemperature = 1e-5f;

// A token of the prompt or the output.
struct UsedToken {
  int32_t token;
  int32_t generated;  // occurrences in the output; 0: only in the prompt
};

// One row to choose from. All spans are host memory and stay as they are until the answer is there; every token in them
// is in [0, n_vocab).
struct SampleTask {
  const float* logits = nullptr;  // [n_vocab], memory of whoever samples
  uint64_t random = 0;            // what decides the draw
  float temperature = 1.0f;
  int top_k = 0;       // 0: off
  float top_p = 1.0f;  // 1: off
  float min_p = 0.0f;
  std::span<const std::pair<int32_t, float>> bias = {};  // a token that stands there twice is given both, in order
  std::span<const int32_t> banned = {};
  float repetition_penalty = 1.0f, frequency_penalty = 0.0f, presence_penalty = 0.0f;
  std::span<const UsedToken> used = {};   // no token twice; empty where no penalty asks for them
  std::span<const int32_t> allowed = {};  // ascending, none twice; empty: every token
  // Instead of that list: one bit per token, (n_vocab + 63) / 64 words, at least one bit set, none from n_vocab on.
  std::span<const uint64_t> mask = {};
  int n_top = -1;  // logprobs: -1 none, else the token's and those of so many best ones

  // Whether step 2 changes anything.
  bool adjusts() const { return !bias.empty() || !banned.empty() || !used.empty(); }
  bool constrained() const { return !allowed.empty() || !mask.empty(); }
};

struct TopLogprob {
  int32_t token;
  float logprob;
};

// Logprobs are natural logarithms of the distribution after step 2, before all that follows. A token of probability 0
// has minus infinity.
struct SampleResult {
  int32_t token = -1;  // -1: logits are not finite, or nothing can be chosen
  float logprob = 0;   // this and the following only where asked for
  int n_top = 0;
  TopLogprob top[kMaxTopLogprobs];  // best first, the lower id first among equals
};

}  // namespace monolith
