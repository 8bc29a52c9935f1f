#include "engine/sampling/sample_requests.h"

#include <algorithm>
#include <new>

#include "backend/backend.h"
#include "engine/output/marker_bans.h"

namespace monolith {
namespace {

// Returns the sampling task for the token `n_behind` positions after the sequence's next token.
SampleTask task_of(const Sequence& sequence, const float* logits, int n_behind, const TokenConstraint& constraint) {
  const GenerationRequest& params = sequence.request.params;
  const SamplingParams& sampling = params.sampling;
  SampleTask task =
      sample_task(logits, sampling, sequence.counts, sampling.stream + static_cast<uint32_t>(sequence.choice),
                  static_cast<uint64_t>(sequence.generated() + n_behind), constraint);
  const MarkerBans& bans = sequence.generated() + n_behind < params.min_tokens ? params.early_bans : params.marker_bans;
  if (bans.any()) task.banned = sequence.output.text.banned(bans);
  return task;
}

}  // namespace

SampleRequests::SampleRequests(Backend& backend, Constraints& constraints, int n_vocab, int row_width,
                               int max_logit_rows)
    : backend_(backend),
      constraints_(constraints),
      row_width_(static_cast<size_t>(row_width)),
      sampler_(backend, backend, n_vocab, max_logit_rows),
      allowance_(n_vocab) {
  tasks_.reserve(static_cast<size_t>(max_logit_rows));
}

void SampleRequests::request(const StepPlan& plan, const float* logits) {
  sampler_.clear();
  n_allowances_ = 0;
  tasks_.clear();
  const float* row = logits;
  for (const StepPlan::Item& item : plan.items) {
    row = request_scores(item, row);
    if (!item.wants_logits) continue;
    const Request& request = item.sequence->request;
    // Choices that have not been forked yet get their tasks after the fork. Sequences that have ended since the step
    // was submitted are skipped.
    const bool forks = item.sequence->choice == 0 && static_cast<int>(request.choices.size()) < request.params.n;
    const bool has_ended = item.sequence->state == SequenceState::kEnded;
    tasks_.push_back(forks || has_ended ? kNotRequested : request_in_step(sequence_of(*item.sequence), row));
    tasks_.insert(tasks_.end(), static_cast<size_t>(item.n_drafts), kNotRequested);
    row += static_cast<size_t>(1 + item.n_drafts) * row_width_;
  }
  request_behind_drafts(plan, logits);
  sampler_.begin();
}

// Adds tasks for this step's prompt logprobs: they score the given prompt tokens instead of drawing one. Returns the
// first row after the scored rows.
const float* SampleRequests::request_scores(const StepPlan::Item& item, const float* row) {
  const Sequence& sequence = sequence_of(*item.sequence);
  const bool has_ended = sequence.state == SequenceState::kEnded;
  for (int i = 0; i < item.n_scored; ++i, row += row_width_) {
    SampleTask task;
    task.logits = row;
    task.temperature = 0;
    task.n_top = sequence.request.params.sampling.prompt_logprobs;
    task.given = sequence.tokens[static_cast<size_t>(sequence.n_scored + i) + 1];
    tasks_.push_back(has_ended ? kNotRequested : sampler_.add(task));
  }
  return row;
}

// Adds tasks for the rows after draft tokens, unless the draft tokens before a row change how it is sampled. These
// tasks come after the next tokens of all sequences because they are skipped if a draft token is rejected.
void SampleRequests::request_behind_drafts(const StepPlan& plan, const float* logits) {
  size_t at = 0;
  for (const StepPlan::Item& item : plan.items) {
    const Sequence& sequence = sequence_of(*item.sequence);
    const GenerationRequest& params = sequence.request.params;
    const bool by_place = params.marker_bans.any();
    const bool alike = !Constraints::may_hold(sequence) && !PenaltyCounts::needed(params.sampling) &&
                       !(by_place && sequence.output.text.undecided());
    if (item.n_drafts > 0 && tasks_[at] >= 0 && alike) {
      const std::span<const TokenId> drafts = sequence.drafts->last(item.n_drafts);
      for (size_t i = 1; i <= drafts.size() && !(by_place && is_marker(params, drafts[i - 1])); ++i)
        tasks_[at + i] =
            sampler_.add_behind(tasks_[at + i - 1], drafts[i - 1],
                                task_of(sequence, logits + (at + i) * row_width_, static_cast<int>(i), {}));
    }
    at += static_cast<size_t>(item.logit_rows());
  }
}

// Like request_next(), but if memory runs out, the request is marked and fails when the step has completed.
int32_t SampleRequests::request_in_step(Sequence& sequence, const float* logits) {
  try {
    return request_next(sequence, logits);
  } catch (const std::bad_alloc&) {
    sequence.request.out_of_memory = true;
    return kNotRequested;
  }
}

// Adds a task for the sequence's next token. Returns its index, or a negative code if there is none.
int32_t SampleRequests::request_next(Sequence& sequence, const float* logits) {
  if (sequence.generated() == 0 && sequence.request.finishing[static_cast<size_t>(sequence.choice)])
    return kNotRequested;
  if (!constraints_.is_open(sequence)) return kNotRequested;
  TokenConstraint constraint;
  if (Constraints::may_hold(sequence)) {
    if (n_allowances_ == allowances_.size()) allowances_.emplace_back(sampler_.n_vocab());
    const Constraints::Outcome found = constraints_.constrain(sequence, allowances_[n_allowances_++], constraint);
    if (found != Constraints::Outcome::kOk)
      return found == Constraints::Outcome::kOutOfBudget ? kMaskPending : kGrammarFailed;
  }
  return sampler_.add(task_of(sequence, logits, 0, constraint));
}

void SampleRequests::await() {
  // Without sampling tasks, nothing else would wait for the step to finish.
  if (std::ranges::none_of(tasks_, [](int32_t task) { return task >= 0; })) backend_.wait();
  sampler_.run();
}

void SampleRequests::request_choices(const Request& request, const float* logits, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Sequence& choice = *request.choices[i];
    out[i] = choice.state == SequenceState::kEnded ? kNotRequested : request_next(choice, logits);
  }
  sampler_.run();
}

Constraints::Outcome SampleRequests::sample(Sequence& sequence, const float* logits, const SampleResult* known,
                                            const SampleResult*& chosen) {
  TokenConstraint constraint;
  const Constraints::Outcome found = constraints_.constrain(sequence, allowance_, constraint);
  if (found != Constraints::Outcome::kOk) return found;
  if (known && constraint.allowed.empty() && constraint.mask.empty())
    chosen = known;
  else
    chosen = &sampler_.sample(task_of(sequence, logits, 0, constraint));
  return found;
}

}  // namespace monolith
