// The guesses of a step: whether any pay, which sequences make them, from the text so far or from the drafter, and what
// became of them. No result depends on it (speculation.h). Engine thread only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/guess/draft_model.h"
#include "engine/guess/own_draft.h"
#include "engine/loop/engine_counters.h"
#include "engine/schedule/scheduler.h"
#include "engine/text/constraints.h"

namespace monolith {

class StepGuesses {
 public:
  // `draft`: null if there is none; then the head that the model was loaded with drafts, or its own layer, where it has one
  // and `options` say so.
  StepGuesses(const EngineOptions& options, Scheduler& scheduler, Constraints& constraints, EngineCounters& counters,
              Model& model, Model* draft, int n_vocab);

  // What the step feeds the model's own layer with, once all its guesses are added; nothing if that does not draft.
  std::span<const HiddenRun> feed(const StepPlan& plan) {
    return own_ ? own_->feed(plan) : std::span<const HiddenRun>();
  }
  // Adds rows of guesses to the decodes of a step that has nothing else to do. Pages that the plan has copied are so
  // already.
  void add_to(const StepPlan& plan);
  // Of a sequence's guesses in this step the first `n_right` were right, and then one was wrong, or none was left to tell.
  void settle(Sequence& sequence, int n_guesses, int n_right, bool then_wrong);
  // The step took `ms`, without the draft's part.
  void note_step(const StepPlan& plan, double ms);
  double draft_ms() const { return draft_ms_; }  // of this step, spent on drafts
  // The sequence has ended.
  void forget(const Sequence& sequence);
  bool consistent() const { return !drafter_ || drafter_->consistent(); }

 private:
  static constexpr int kMostUnasked = 4;  // guesses of the own layer, where it is not asked whether they pay

  void ask_drafter();
  void add(const StepPlan::Item& item, std::span<const TokenId> guesses);

  const Speculation speculation_;
  const bool drafts_always_;
  Scheduler& scheduler_;
  Constraints& constraints_;
  EngineCounters& counters_;
  GuessPace guess_pace_;
  DraftPace draft_pace_;
  std::unique_ptr<Drafter> drafter_;
  OwnDraft* own_ = nullptr;                        // if that is who drafts
  std::vector<DraftWish> wishes_;                  // of this step
  std::vector<const StepPlan::Item*> wish_items_;  // parallel
  double draft_ms_ = 0;
  int n_decodes_ = 1;  // of the last step with guesses
};

}  // namespace monolith
