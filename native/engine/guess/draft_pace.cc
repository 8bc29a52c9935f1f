#include "engine/guess/draft_pace.h"

#include <algorithm>

namespace monolith {
namespace {

// Running average that follows slower samples slowly, because other processes may have caused them, and faster samples
// quickly.
void follow(double& mean, double ms) {
  mean = mean == 0 ? ms : mean + (ms < mean ? 0.4 : 0.1) * (std::min(ms, 8 * mean) - mean);
}

}  // namespace

void DraftPace::note_step(double ms) {
  follow(usual_ms_, ms);
  earn((trial_ > 0 ? kTrialShare : kShare) * std::min(ms, 2 * usual_ms_));
  if (trial_ > 0) --trial_;
}

void DraftPace::note_draft_step(int sequences, double ms) {
  follow(step_ms_[static_cast<size_t>(std::clamp(sequences, 1, kMost))], ms);
}

// Uses the measured time for the nearest smaller number of sequences, or else for the nearest larger one.
double DraftPace::step_ms(int sequences) const {
  const int n = std::clamp(sequences, 1, kMost);
  for (int i = n; i >= 1; --i)
    if (const double ms = step_ms_[static_cast<size_t>(i)]; ms > 0) return ms;
  for (int i = n; i <= kMost; ++i)
    if (const double ms = step_ms_[static_cast<size_t>(i)]; ms > 0) return ms;
  return 0;
}

void DraftPace::earn(double ms) {
  const double most = kMostSteps * usual_ms_;
  credit_ = std::clamp(credit_ + ms, -most, most);
  if (credit_ <= 0)
    open_ = false;
  else if (credit_ >= std::min(kDraftsToReopen * step_ms(1), most / 2))
    open_ = true;
}

void DraftPace::settle(int n_right, bool then_wrong) {
  constexpr double kStep = 0.01, kSurest = 0.9;
  for (int i = 0; i < n_right; ++i) chance_ = std::min(kSurest, chance_ + kStep * (1 - chance_));
  if (then_wrong) chance_ -= kStep * chance_;
}

}  // namespace monolith
