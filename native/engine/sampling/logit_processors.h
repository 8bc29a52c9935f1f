// Changes to the logits before sampling: bias and bans, then penalties. PenaltyCounts is used only on the engine
// thread; the other functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/sampling.h"
#include "engine/request.h"

namespace monolith {

// Counts how often each token occurs in a sequence. Allocates once, for the whole generation; counting never allocates.
class PenaltyCounts {
 public:
  PenaltyCounts() = default;
  // Allocates room for the prompt's tokens and `max_new` generated tokens from a vocabulary of `n_vocab` tokens.
  PenaltyCounts(std::span<const TokenId> prompt, int64_t max_new, int n_vocab);

  // Whether `params` has a penalty that needs the counts.
  static bool needed(const SamplingParams& params) {
    return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
  }

  void add_generated(TokenId token) { ++entry(token).generated; }

  std::span<const UsedToken> entries() const { return entries_; }
  bool empty() const { return slots_.empty(); }

 private:
  UsedToken& entry(TokenId token);  // Adds the token with count 0 if it is absent.
  std::vector<UsedToken> entries_;  // In the order in which the tokens first occurred.
  // Open-addressing hash table whose slots hold an index into entries_, or -1. Its size is a power of two; at most half
  // of the slots are in use.
  std::vector<int32_t> slots_;
};

// Applies step 2 of backend/sampling.h to logits [n_vocab] in place. Bias and bans come first. Then, for each used
// token, a positive logit is divided by repetition_penalty and a negative one is multiplied by it (Keskar et al. 2019,
// "CTRL", section 4.1). Finally, the frequency and presence penalties are subtracted.
void apply_logit_processors(const SampleTask& task, float* logits);

}  // namespace monolith
