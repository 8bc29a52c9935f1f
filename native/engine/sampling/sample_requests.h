// The sampling tasks of a step. All tasks that are known to be needed are collected before any sequence takes its
// tokens, so that all rows can be sampled together. On the device they can be submitted even before their logits are
// computed. Other tasks are run later, when the sequence takes its tokens. Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/sampling/batch_sampler.h"
#include "engine/schedule/scheduler.h"
#include "engine/text/constraints.h"

namespace monolith {

class SampleRequests {
 public:
  // Codes that stand in place of a task index. kNotRequested: the row is sampled later if needed. kGrammarFailed: its
  // grammar has failed. kMaskPending: the grammar mask is not computed yet.
  static constexpr int32_t kNotRequested = -1, kGrammarFailed = -2, kMaskPending = -3;

  // Logit rows have `row_width` floats, of which the first `n_vocab` are sampled.
  SampleRequests(Backend& backend, Constraints& constraints, int n_vocab, int row_width, int max_logit_rows);

  bool on_backend() const { return sampler_.samples_on_backend(); }

  // Collects the tasks of a step and starts them if the device samples.
  void request(const StepPlan& plan, const float* logits);
  // Returns when the step has been computed and its tasks have results.
  void await();
  // Task index or code for each logit row of the step, in row order.
  std::span<const int32_t> tasks() const { return tasks_; }
  // Returns null if the task was skipped because an earlier draft token was rejected.
  const SampleResult* result(int32_t task) const { return sampler_.result(task); }

  // Samples the first tokens of a request's choices from the same row; stores the task indices in `out`.
  void request_choices(const Request& request, const float* logits, std::span<int32_t> out);
  // Samples one next token with the constraint that currently applies. `known`: result for this row without a
  // constraint, or null. The outcome kOk without a token means that the logits are not finite.
  Constraints::Outcome sample(Sequence& sequence, const float* logits, const SampleResult* known,
                              const SampleResult*& chosen);

 private:
  const float* request_scores(const StepPlan::Item& item, const float* row);
  int32_t request_in_step(Sequence& sequence, const float* logits);
  int32_t request_next(Sequence& sequence, const float* logits);
  void request_behind_drafts(const StepPlan& plan, const float* logits);

  Backend& backend_;
  Constraints& constraints_;
  const size_t row_width_;
  BatchSampler sampler_;
  std::vector<int32_t> tasks_;
  // Allowed tokens, one entry per task with a constraint. Grows to the maximum number needed in any step.
  std::deque<AllowedTokens> allowances_;
  size_t n_allowances_ = 0;  // Number of entries of allowances_ used in this step.
  AllowedTokens allowance_;  // Allowed tokens for sample().
};

}  // namespace monolith
