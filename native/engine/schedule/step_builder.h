// Builds the plan of one step and counts its logit rows. Engine thread only.
//
// Prompt log-probabilities: a prompt chunk may use only the logit rows that remain after one row has been reserved for
// each sequence that may run.
#pragma once

#include "engine/schedule/scheduled_sequence.h"
#include "engine/schedule/snapshot_keeper.h"
#include "engine/schedule/step_limits.h"
#include "engine/schedule/step_plan.h"

namespace monolith {

class StepBuilder {
 public:
  StepBuilder(SnapshotKeeper& snapshots, const StepLimits& limits, const KvLayout& layout);

  StepPlan& plan() { return plan_; }
  void clear();
  void count_score_rows(int n_running);  // Sets the number of logit rows left for prompt tokens.
  // Adds the next `n_tokens` tokens of the sequence. If there is no slot for its recurrent state, clears its n_planned
  // and returns false; the sequence is scheduled once other sequences have released their slots.
  bool add(ScheduledSequence& sequence, int n_tokens);
  // Returns how many of the `n_tokens` tokens after the planned ones can be added with the available logit rows.
  int scorable(const ScheduledSequence& sequence, int n_tokens) const;
  // Schedules `n_tokens` more tokens: adds them to n_planned and takes their logit rows.
  void schedule(ScheduledSequence& sequence, int n_tokens);

 private:
  SnapshotKeeper& snapshots_;
  const StepLimits& limits_;
  StepPlan plan_;
  int score_rows_left_ = 0;  // Logit rows left in the step, after one row for each sequence that may run.
};

}  // namespace monolith
