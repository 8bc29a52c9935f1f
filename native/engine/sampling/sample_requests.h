// What a step asks of the sampler. All that is sure to be asked is gathered before any sequence takes its tokens, changing
// none of them, so that all rows are sampled together, and where the backend samples before their logits are there. What
// is not sure is left to the sequence's turn. Engine thread only.
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
  // In the place of a task's number: the row must be looked at in its turn, or the rule it is under has failed, or what
  // that allows is still to be found.
  static constexpr int32_t kNotRequested = -1, kRuleFailed = -2, kRuleDue = -3;

  // Rows of logits are `row_width` long, of which `n_vocab` are sampled.
  SampleRequests(Backend& backend, Constraints& constraints, int n_vocab, int row_width, int max_logit_rows);

  bool on_backend() const { return sampler_.samples_on_backend(); }

  // Gathers the tasks of a step and has the backend begin with them if it samples.
  void request(const StepPlan& plan, const float* logits);
  // Returns when the step is computed and its tasks have their answers.
  void await();
  // Its tasks: one number for each row of logits, in the order of rows.
  std::span<const int32_t> tasks() const { return tasks_; }
  // Null: left out, an earlier guess was wrong.
  const SampleResult* result(int32_t task) const { return sampler_.result(task); }

  // The first tokens of a request's choices, all from one row, at once: tasks into `out`.
  void request_choices(const Request& request, const float* logits, std::span<int32_t> out);
  // The next token, by itself and with the constraint that holds now; `known`: what was found for this row without any,
  // or null. kOk without a token: the logits are not finite.
  Constraints::Outcome sample(Sequence& sequence, const float* logits, const SampleResult* known,
                              const SampleResult*& chosen);

 private:
  const float* request_scores(const StepPlan::Item& item, const float* row);
  int32_t request_next(Sequence& sequence, const float* logits);
  void request_behind_guesses(const StepPlan& plan, const float* logits);

  Backend& backend_;
  Constraints& constraints_;
  const size_t row_width_;
  BatchSampler sampler_;
  std::vector<int32_t> tasks_;
  std::deque<Allowance> allowances_;  // of tasks; grows to the most that a step has had
  size_t n_allowances_ = 0;           // of this step
  Allowance allowance_;               // of what is sampled by itself
};

}  // namespace monolith
