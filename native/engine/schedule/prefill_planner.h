// Decides how many prompt tokens each prompt gets, both in steps of first tokens and, after the decodes have been
// planned, in ordinary steps. Also offers the remaining tokens of an ordinary step to newly admitted sequences. Engine
// thread only.
//
// Bidirectional spans: a span is always computed in one step, even if it exceeds its prompt's budget. A span that does
// not fit into a step with decodes gets a separate step, like first tokens.
//
// Shared prefixes: if another sequence computes the next page of a prompt in the same step, the prompt waits and takes
// the page from the prefix cache in the next step.
//
// Background prompts get no tokens while Admission::holds_back_background() is true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/schedule/admission.h"
#include "engine/schedule/page_mover.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/schedule/step_builder.h"
#include "engine/schedule/step_limits.h"

namespace monolith {

class PrefillPlanner {
 public:
  static constexpr int kStepsBetween = 3;  // Minimum number of ordinary steps between two steps of first tokens.
  // The number of shares of the prefill budget that an organization receives while it waits for its first token.
  static constexpr int kFirstTokenShares = 3;

  PrefillPlanner(Admission& admission, PageMover& pages, StepBuilder& step, const StepLimits& limits);

  // Plans a step of first tokens or of one long span, if it is due. Otherwise returns false; the plan is then empty.
  bool plan_first_tokens(int budget);
  // Plans up to `budget` prompt tokens from running prompts and from sequences that are admitted now.
  void plan_prompts(int budget);

 private:
  // One organization's range in `prompts_` and its part of the prefill budget.
  struct PromptGroup {
    size_t begin, end;
    uint64_t oldest;  // order() of the group's oldest sequence.
    int64_t demand;   // Remaining prompt tokens of the group.
    int shares;
  };

  bool plan_long_span();
  void group_prompts();
  int split_budget(int budget, bool may_admit);
  int schedule_tokens(ScheduledSequence& sequence, int n_tokens);

  Admission& admission_;
  PageMover& pages_;
  StepBuilder& step_;
  const StepLimits& limits_;
  // Prompts of the step being planned. Grouped by organization. Within a group, the oldest prompt comes first, followed
  // by the other prompts in ascending order of remaining tokens.
  std::vector<ScheduledSequence*> prompts_;
  std::vector<PromptGroup> groups_;
  // The number of tokens that can still be added to the step being planned. Only bidirectional spans may exceed their
  // prompt's budget, and at most up to this number.
  int rows_left_ = 0;
  int steps_since_first_tokens_ = kStepsBetween;
};

}  // namespace monolith
