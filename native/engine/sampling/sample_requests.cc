#include "engine/sampling/sample_requests.h"

#include <algorithm>
#include <new>

#include "backend/backend.h"

namespace monolith {
namespace {

// Returns the sampling task for the token `n_behind` positions after the sequence's next token.
SampleTask task_of(const Sequence& sequence, const float* logits, int n_behind, const TokenConstraint& constraint) {
  const SamplingParams& sampling = sequence.request.params.sampling;
  SampleTask task =
      sample_task(logits, sampling, sequence.counts, sampling.stream + static_cast<uint32_t>(sequence.choice),
                  static_cast<uint64_t>(sequence.generated() + n_behind), constraint);
  if (const auto* banned = sequence.output.banned(sequence.generated() + n_behind)) task.banned = *banned;
  return task;
}

}  // namespace

SampleRequests::SampleRequests(Backend& backend, GrammarRunner& grammars, int n_vocab, int row_width,
                               int max_logit_rows)
    : backend_(backend),
      grammars_(grammars),
      row_width_(static_cast<size_t>(row_width)),
      sampler_(backend, backend, n_vocab, max_logit_rows),
      mask_(static_cast<size_t>(n_vocab)) {
  tasks_.reserve(static_cast<size_t>(max_logit_rows));
}

void SampleRequests::request(const StepPlan& plan, const float* logits) {
  sampler_.clear();
  n_masks_ = 0;
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

// Adds tasks for the rows after draft tokens, unless the draft tokens before a row change how that row is sampled.
// These tasks are added after the tasks for the next tokens of all sequences, because they are skipped if a draft token
// is rejected.
void SampleRequests::request_behind_drafts(const StepPlan& plan, const float* logits) {
  size_t at = 0;
  for (const StepPlan::Item& item : plan.items) {
    const Sequence& sequence = sequence_of(*item.sequence);
    const bool alike = !sequence.output.may_constrain() && !PenaltyCounts::needed(sequence.request.params.sampling);
    if (item.n_drafts > 0 && tasks_[at] >= 0 && alike) {
      const std::span<const TokenId> drafts = sequence.drafts->last(item.n_drafts);
      for (size_t i = 1; i <= drafts.size() && !sequence.output.may_change_bans(drafts[i - 1]); ++i)
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

// Adds a task for the sequence's next token. Returns its index, or one of the negative codes if no task was added.
int32_t SampleRequests::request_next(Sequence& sequence, const float* logits) {
  if (sequence.generated() == 0 && sequence.request.finishing[static_cast<size_t>(sequence.choice)])
    return kNotRequested;
  if (!sequence.output.is_sampled(grammars_, sequence.tokens)) return kNotRequested;
  OutputState::Next next;
  if (sequence.output.may_constrain()) {
    if (n_masks_ == masks_.size()) masks_.emplace_back(static_cast<size_t>(sampler_.n_vocab()));
    next = sequence.output.allowed(grammars_, sequence.tokens, masks_[n_masks_++]);
    if (next.kind == OutputState::Next::Kind::kPending) return kMaskPending;
    if (next.kind == OutputState::Next::Kind::kFailed) return kGrammarFailed;
  }
  return sampler_.add(task_of(sequence, logits, 0, {next.tokens, next.mask}));
}

void SampleRequests::await() {
  // If there are no sampling tasks, no other call waits for the step to finish.
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

OutputState::Next::Kind SampleRequests::sample(Sequence& sequence, const float* logits, const SampleResult* known,
                                               const SampleResult*& chosen) {
  const OutputState::Next next = sequence.output.allowed(grammars_, sequence.tokens, mask_);
  if (!OutputState::Next::is_known(next.kind)) return next.kind;
  if (known && next.kind == OutputState::Next::Kind::kOpen)
    chosen = known;
  else
    chosen = &sampler_.sample(task_of(sequence, logits, 0, {next.tokens, next.mask}));
  return next.kind;
}

}  // namespace monolith
