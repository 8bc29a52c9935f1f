// Time budget for drafting, based on its measured cost and benefit. One per engine; engine thread only.
//
// Each step of the target model adds a small share of its duration to the budget (initially a larger share). Each
// accepted draft token adds the time that it has saved. All drafting work is charged to the budget, including the draft
// model's prefill. A draft model that brings no benefit therefore costs at most that share, and a beneficial one never
// runs out of budget. Credit and debt are limited, so that neither earlier success nor a single delayed step has a
// lasting effect.
#pragma once

#include <array>

#include "engine/speculation/speculation.h"

namespace monolith {

class DraftBudget {
 public:
  // Records a decode step that took `ms` milliseconds, excluding the time spent drafting.
  void note_step(double ms);
  // Records the duration of a draft step that computed one token for each of this number of sequences.
  void note_draft_step(int sequences, double ms);
  // Returns the expected duration, in ms, of a draft step for this number of sequences; 0 = not measured yet.
  double step_ms(int sequences) const;
  // Adds to the budget: a positive number of milliseconds for time that accepted draft tokens have saved, a negative
  // one for time spent on drafting.
  void earn(double ms);
  bool may_draft() const { return open_; }
  // Acceptance probability for sequences that have not drafted yet.
  double chance() const { return chance_; }
  void record_acceptance(int n_accepted, bool next_rejected);

 private:
  static constexpr double kShare = 0.02, kTrialShare = 0.2;
  static constexpr int kTrialSteps = 128;
  // Credit and debt are limited to the duration of this many target-model steps.
  static constexpr double kMaxSteps = 128;
  static constexpr double kDraftsToReopen = 8;
  static constexpr int kMax = AcceptanceModel::kMaxDecodes;

  std::array<double, kMax + 1> step_ms_{};  // Milliseconds, indexed by number of sequences.
  double usual_ms_ = 0;                     // Typical duration of a target-model step, in ms.
  double credit_ = 0;
  double chance_ = 0.6;
  int trial_ = kTrialSteps;  // Remaining steps of the initial phase, in which drafting may use kTrialShare of the time.
  bool open_ = false;
};

}  // namespace monolith
