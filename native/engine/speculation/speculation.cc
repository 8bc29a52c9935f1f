#include "engine/speculation/speculation.h"

#include <algorithm>

namespace monolith {

void AcceptanceModel::note(int decodes, int drafts, double ms) {
  double& base = base_ms_[index(decodes)];
  if (drafts == 0) {
    // A running average that adapts slowly to samples that are slower than the average, because other processes may
    // have caused the delay, and quickly to faster samples.
    average(base, ms, ms < base ? 0.4 : 0.1);
    since_plain_ = 0;
    return;
  }
  ++since_plain_;
  if (base == 0) return;
  if (ms < base) {  // Draft tokens cannot make a step faster, so the stored time is out of date.
    base = ms;
    since_plain_ = kPlainEvery;
    return;
  }
  // The value is clamped, because a draft token cannot cost more than a whole step.
  average(row_ms_, std::clamp((ms - base) / drafts, 1e-6, base), 0.1);
}

double AcceptanceModel::price(int decodes) const {
  const double base = base_ms_[index(decodes)];
  return base > 0 && row_ms_ > 0 ? decodes * std::max(kMinPrice, row_ms_ / base) : kUnmeasured * decodes;
}

std::span<TokenId> SequenceDrafts::draft(std::span<const TokenId> tokens, double price, int most) {
  const PromptLookup::Match match = lookup_.find(tokens);
  if (match.length == 0 || most <= 0) return {};
  length_ = by_length(match.length);
  const std::span<TokenId> drafts(tokens_.data(), static_cast<size_t>(worth(price, most)));
  PromptLookup::copy(tokens, match, drafts);
  return drafts;
}

std::span<TokenId> SequenceDrafts::propose(std::span<const TokenId> next, double price, int most) {
  most = static_cast<int>(std::min(next.size(), static_cast<size_t>(std::max(most, 0))));
  if (most == 0) return {};
  length_ = kPrediction;
  const std::span<TokenId> drafts(tokens_.data(), static_cast<size_t>(worth(price, most)));
  std::ranges::copy(next.first(drafts.size()), drafts.begin());
  return drafts;
}

std::span<TokenId> SequenceDrafts::place_for_draft(double price, int most) {
  if (most <= 0) return {};
  length_ = kDraft;
  return {tokens_.data(), static_cast<size_t>(worth(price, most))};
}

// Returns the number of draft tokens worth computing. If this is zero, a single token is still tried from time to time.
int SequenceDrafts::worth(double price, int most) {
  int n = 0;
  for (double chance = chance_[length_]; n < most && chance > price; chance *= chance_[length_]) ++n;
  if (n > 0) return n;
  if (++pause().passed < pause().length) return 0;
  pause().passed = 0;
  return 1;
}

void SequenceDrafts::record_acceptance(int n_accepted, bool next_rejected) {
  constexpr double kStep = 0.08, kSurest = 0.98;
  double& chance = chance_[length_];
  for (int i = 0; i < n_accepted; ++i) chance = std::min(kSurest, chance + kStep * (1 - chance));
  if (next_rejected) chance -= kStep * chance;
  pause().length = n_accepted > 0 ? kMinPause : std::min(2 * pause().length, kMaxPause);
}

}  // namespace monolith
