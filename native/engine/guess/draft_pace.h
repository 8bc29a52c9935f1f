// What a draft costs and brings: the milliseconds it may still spend. One per engine, engine thread only.
//
// Each step of the model lends it a small share of its time, a larger one in the beginning, and each guess that was
// right what it has saved; all that is done for drafts is paid from that, catching up on prompts included. So a draft
// that is worth nothing costs that share, and one that pays is never short. What may be saved up or owed is bounded,
// so that neither a better past nor a step that something else has held up counts for long.
#pragma once

#include <array>

#include "engine/guess/speculation.h"

namespace monolith {

class DraftPace {
 public:
  // A step of decodes took `ms`, without the draft's part.
  void note_step(double ms);
  // One step of the draft for so many sequences, one token of each.
  void note_draft_step(int sequences, double ms);
  // What such a step is expected to take; 0: not measured.
  double step_ms(int sequences) const;
  // Saved by guesses that were right; less than nothing if it was spent.
  void earn(double ms);
  bool may_draft() const { return open_; }
  // How often its guesses are right, for sequences that have not tried yet.
  double chance() const { return chance_; }
  void settle(int n_right, bool then_wrong);

 private:
  static constexpr double kShare = 0.02, kTrialShare = 0.2;
  static constexpr int kTrialSteps = 128;
  static constexpr double kMostSteps = 128;  // worth so many steps of the model may be saved up, or owed
  static constexpr double kDraftsToReopen = 8;
  static constexpr int kMost = GuessPace::kMostDecodes;

  std::array<double, kMost + 1> step_ms_{};  // by sequences
  double usual_ms_ = 0;                      // of a step of the model
  double credit_ = 0;
  double chance_ = 0.6;
  int trial_ = kTrialSteps;  // steps left of the beginning
  bool open_ = false;
};

}  // namespace monolith
