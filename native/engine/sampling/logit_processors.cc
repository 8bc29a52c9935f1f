#include "engine/sampling/logit_processors.h"

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

UsedToken& PenaltyCounts::entry(TokenId token) {
  const size_t mask = slots_.size() - 1;
  size_t at = (static_cast<uint32_t>(token) * 0x9E3779B9u) & mask;
  while (slots_[at] >= 0) {
    UsedToken& found = entries_[static_cast<size_t>(slots_[at])];
    if (found.token == token) return found;
    at = (at + 1) & mask;
  }
  assert(entries_.size() < entries_.capacity());
  slots_[at] = static_cast<int32_t>(entries_.size());
  return entries_.emplace_back(UsedToken{token, 0});
}

void apply_logit_processors(const SampleTask& task, float* logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const auto& [token, bias] : task.bias) {
    if (bias <= kBanBias) {
      logits[token] = kNever;
    } else {
      logits[token] += bias;
    }
  }
  for (const int32_t token : task.banned) logits[token] = kNever;
  for (const UsedToken& used : task.used) {
    float& logit = logits[used.token];
    logit = logit > 0 ? logit / task.repetition_penalty : logit * task.repetition_penalty;
    if (used.generated > 0)
      logit -= task.frequency_penalty * static_cast<float>(used.generated) + task.presence_penalty;
  }
}

}  // namespace monolith
