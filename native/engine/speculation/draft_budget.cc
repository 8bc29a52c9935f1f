#include "engine/speculation/draft_budget.h"

#include <algorithm>

namespace monolith {
namespace {

// A running average that adapts slowly to samples that are slower than the average, because other processes may have
// caused the delay, and quickly to faster samples.
void follow(double& mean, double ms) {
  mean = mean == 0 ? ms : mean + (ms < mean ? 0.4 : 0.1) * (std::min(ms, 8 * mean) - mean);
}

}  // namespace

void DraftBudget::note_step(double ms) {
  follow(usual_ms_, ms);
  earn((trial_ > 0 ? kTrialShare : kShare) * std::min(ms, 2 * usual_ms_));
  if (trial_ > 0) --trial_;
}

void DraftBudget::note_draft_step(int sequences, double ms) {
  follow(step_ms_[static_cast<size_t>(std::clamp(sequences, 1, kMax))], ms);
}

// Uses the time measured for the nearest smaller number of sequences or, if there is none, for the nearest larger
// number.
double DraftBudget::step_ms(int sequences) const {
  const int n = std::clamp(sequences, 1, kMax);
  for (int i = n; i >= 1; --i)
    if (const double ms = step_ms_[static_cast<size_t>(i)]; ms > 0) return ms;
  for (int i = n; i <= kMax; ++i)
    if (const double ms = step_ms_[static_cast<size_t>(i)]; ms > 0) return ms;
  return 0;
}

void DraftBudget::earn(double ms) {
  const double most = kMaxSteps * usual_ms_;
  credit_ = std::clamp(credit_ + ms, -most, most);
  if (credit_ <= 0)
    open_ = false;
  else if (credit_ >= std::min(kDraftsToReopen * step_ms(1), most / 2))
    open_ = true;
}

void DraftBudget::record_acceptance(int n_accepted, bool next_rejected) {
  constexpr double kStep = 0.01, kSurest = 0.9;
  for (int i = 0; i < n_accepted; ++i) chance_ = std::min(kSurest, chance_ + kStep * (1 - chance_));
  if (next_rejected) chance_ -= kStep * chance_;
}

}  // namespace monolith
