#include "engine/logit_processors.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace monolith {

PenaltyCounts::PenaltyCounts(std::span<const TokenId> prompt, int64_t max_new, int n_vocab) {
  const int64_t distinct = std::min<int64_t>(static_cast<int64_t>(prompt.size()) + max_new, n_vocab);
  entries_.reserve(static_cast<size_t>(distinct));
  slots_.assign(std::bit_ceil(static_cast<size_t>(distinct) * 2), -1);
  for (const TokenId token : prompt) entry(token);
}

PenaltyCounts::Entry& PenaltyCounts::entry(TokenId token) {
  const size_t mask = slots_.size() - 1;
  size_t at = (static_cast<uint32_t>(token) * 0x9E3779B9u) & mask;
  while (slots_[at] >= 0) {
    Entry& found = entries_[static_cast<size_t>(slots_[at])];
    if (found.token == token) return found;
    at = (at + 1) & mask;
  }
  assert(entries_.size() < entries_.capacity());
  slots_[at] = static_cast<int32_t>(entries_.size());
  return entries_.emplace_back(Entry{token, 0});
}

bool has_logit_processors(const SamplingParams& params) {
  return !params.logit_bias.empty() || !params.banned.empty() || PenaltyCounts::needed(params);
}

void apply_logit_processors(const SamplingParams& params, const PenaltyCounts& counts, float* logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const auto& [token, bias] : params.logit_bias) {
    if (bias <= kBanBias) {
      logits[token] = kNever;
    } else {
      logits[token] += bias;
    }
  }
  for (const TokenId token : params.banned) logits[token] = kNever;
  if (!PenaltyCounts::needed(params)) return;
  for (const PenaltyCounts::Entry& used : counts.entries()) {
    float& logit = logits[used.token];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (used.generated > 0)
      logit -= params.frequency_penalty * static_cast<float>(used.generated) + params.presence_penalty;
  }
}

}  // namespace monolith
