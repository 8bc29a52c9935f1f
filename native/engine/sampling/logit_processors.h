// What changes logits before they become probabilities: bias and bans, then penalties. Counts belong to the engine
// thread; the rest is pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/sampling.h"
#include "engine/request.h"

namespace monolith {

// How often a sequence has used which token. Sized once for the whole generation; counting a token
// never allocates.
class PenaltyCounts {
 public:
  PenaltyCounts() = default;
  // Room for the prompt's tokens and `max_new` generated ones, of a vocabulary of `n_vocab`.
  PenaltyCounts(std::span<const TokenId> prompt, int64_t max_new, int n_vocab);

  // Whether these parameters look at the counts at all.
  static bool needed(const SamplingParams& params) {
    return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
  }

  void add_generated(TokenId token) { ++entry(token).generated; }

  std::span<const UsedToken> entries() const { return entries_; }
  bool empty() const { return slots_.empty(); }

 private:
  UsedToken& entry(TokenId token);  // adds it with 0 if absent
  std::vector<UsedToken> entries_;  // in order of first use
  std::vector<int32_t> slots_;      // open addressing, index into entries_ or -1; a power of two, at most half full
};

// The second step of sampling.h on logits [n_vocab], in place: bias, bans, then for each used token division (positive) or
// multiplication (negative) by repetition_penalty (Keskar et al. 2019, "CTRL", section 4.1), then frequency and presence.
void apply_logit_processors(const SampleTask& task, float* logits);

}  // namespace monolith
