// What changes logits before they become probabilities: bias and bans, then penalties. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace monolith {

// A bias of -100 or less bans its token: the logit becomes minus infinity. (Contract: -100 bans.)
inline constexpr float kBanBias = -100.0f;

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

  struct Entry {
    TokenId token;
    int32_t generated;   // occurrences in the output; 0: only in the prompt
  };
  std::span<const Entry> entries() const { return entries_; }
  bool empty() const { return slots_.empty(); }

 private:
  Entry& entry(TokenId token);   // adds it with 0 if absent
  std::vector<Entry> entries_;   // in order of first use
  std::vector<int32_t> slots_;   // open addressing, index into entries_ or -1; a power of two, at most half full
};

// True if apply_logit_processors would change anything.
bool has_logit_processors(const SamplingParams& params);

// Changes logits [n_vocab] in place: adds the bias, takes out what is banned, then for each counted token divides (positive) or
// multiplies (negative) by repetition_penalty (Keskar et al. 2019, "CTRL", section 4.1), then subtracts
// frequency_penalty per generated occurrence and presence_penalty once if generated.
void apply_logit_processors(const SamplingParams& params, const PenaltyCounts& counts, float* logits);

}  // namespace monolith
