// The sampling tasks of a step. All tasks that are certain to be needed are collected before any sequence accepts its
// tokens, so all rows can be sampled together. On a device, these tasks can be submitted even before their logits have
// been computed. The remaining tasks run later, when their sequence accepts its tokens. Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/sampling/batch_sampler.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"

namespace monolith {

class SampleRequests {
 public:
  // Codes used in place of a task index. kNotRequested: the row is sampled later, if needed. kGrammarFailed: the
  // sequence's grammar has failed. kMaskPending: the grammar mask has not been computed yet.
  static constexpr int32_t kNotRequested = -1, kGrammarFailed = -2, kMaskPending = -3;

  // Logit rows have `row_width` floats, of which the first `n_vocab` are sampled.
  SampleRequests(Backend& backend, GrammarRunner& grammars, int n_vocab, int row_width, int max_logit_rows);

  bool on_backend() const { return sampler_.samples_on_backend(); }

  // Collects the tasks of a step and, if the device samples, starts them.
  void request(const StepPlan& plan, const float* logits);
  // Waits until the step has been computed and its tasks have results.
  void await();
  // Task index, or one of the codes above, for each logit row of the step, in row order.
  std::span<const int32_t> tasks() const { return tasks_; }
  // Returns null if the task was skipped because an earlier draft token was rejected.
  const SampleResult* result(int32_t task) const { return sampler_.result(task); }

  // Samples the first token of each choice of a request from the same row and stores the task indices in `out`.
  void request_choices(const Request& request, const float* logits, std::span<int32_t> out);
  // Samples one next token under the constraint that currently applies. `known`: the result for this row without a
  // constraint, or null. If the next token could be determined, `chosen` is the result, whose token is kNoToken if a
  // logit is not finite. Otherwise, nothing was sampled.
  OutputState::Next::Kind sample(Sequence& sequence, const float* logits, const SampleResult* known,
                                 const SampleResult*& chosen);

 private:
  const float* request_scores(const StepPlan::Item& item, const float* row);
  int32_t request_in_step(Sequence& sequence, const float* logits);
  int32_t request_next(Sequence& sequence, const float* logits);
  void request_behind_drafts(const StepPlan& plan, const float* logits);

  Backend& backend_;
  GrammarRunner& grammars_;
  const size_t row_width_;
  BatchSampler sampler_;
  std::vector<int32_t> tasks_;
  // Masks of allowed tokens: one per task with a constraint. The vector keeps the size of the largest number needed so
  // far in any one step.
  std::deque<grammar::TokenMask> masks_;
  size_t n_masks_ = 0;       // Number of entries of masks_ used in this step.
  grammar::TokenMask mask_;  // Used by sample().
};

}  // namespace monolith
