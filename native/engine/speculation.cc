#include "engine/speculation.h"

#include <algorithm>

namespace monolith {

void GuessPace::note(int decodes, int guesses, double ms) {
  double& base = base_ms_[index(decodes)];
  if (guesses == 0) {
    average(base, ms);
    since_plain_ = 0;
    return;
  }
  ++since_plain_;
  if (base > 0) average(row_ms_, std::max(1e-6, ms - base) / guesses);
}

double GuessPace::price(int decodes) const {
  if (decodes > kMostDecodes) return 2;
  const double base = base_ms_[index(decodes)];
  return base > 0 && row_ms_ > 0 ? decodes * row_ms_ / base : kUnmeasured * decodes;
}

std::span<TokenId> Guesses::guess(std::span<const TokenId> tokens, double price, int most) {
  const PromptLookup::Match match = lookup_.find(tokens);
  if (match.length == 0 || most <= 0) return {};
  length_ = by_length(match.length);
  int n = 0;
  for (double chance = chance_[length_]; n < most && chance > price; chance *= chance_[length_]) ++n;
  if (n == 0) {
    if (++passed_ < pause_) return {};
    passed_ = 0;
    n = 1;
  }
  const std::span<TokenId> guesses(tokens_.data(), static_cast<size_t>(n));
  PromptLookup::copy(tokens, match, guesses);
  return guesses;
}

void Guesses::settle(int n_right, bool then_wrong) {
  constexpr double kStep = 0.08, kSurest = 0.98;
  double& chance = chance_[length_];
  for (int i = 0; i < n_right; ++i) chance = std::min(kSurest, chance + kStep * (1 - chance));
  if (then_wrong) chance -= kStep * chance;
  pause_ = n_right > 0 ? kLeastPause : std::min(2 * pause_, kMostPause);
}

}  // namespace monolith
