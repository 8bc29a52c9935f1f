// The part of StepLoop that finds out, before any sequence of a step takes its tokens, what each will ask of the
// sampler: so all rows are sampled together. Nothing here changes what a sequence is or says; whatever is not sure
// to be asked is left to its turn. Engine thread.
#include "engine/loop/step_loop.h"

namespace monolith {

// A task for each row of logits where that is known by now.
void StepLoop::ask_ahead(const StepPlan& plan, const float* logits) {
  const auto n_vocab = static_cast<size_t>(model_.params().n_vocab);
  sampler_.clear();
  n_allowances_ = 0;
  ahead_.clear();
  const float* row = logits;
  for (const StepPlan::Item& item : plan.items) {
    if (!item.wants_logits) continue;
    const Request& request = item.sequence->request;
    // Choices that are yet to come are asked once they are there. Who has ended since the step began is asked nothing.
    const bool forks = item.sequence->choice == 0 && static_cast<int>(request.choices.size()) < request.params.n;
    const bool has_ended = item.sequence->state == SequenceState::kEnded;
    ahead_.push_back(forks || has_ended ? kNotAsked : ask_ahead(*item.sequence, row));
    ahead_.insert(ahead_.end(), static_cast<size_t>(item.n_guesses), kNotAsked);
    row += static_cast<size_t>(1 + item.n_guesses) * n_vocab;
  }
  // Behind guesses, where the tokens before a row do not change how it is sampled. They come after the next tokens of
  // all sequences: a guess may be wrong, and then the rows behind it are left out.
  size_t at = 0;
  row = logits;
  for (const StepPlan::Item& item : plan.items) {
    if (!item.wants_logits) continue;
    const Sequence& sequence = *item.sequence;
    const auto n_guesses = static_cast<size_t>(item.n_guesses);
    const bool alike = !may_be_constrained(sequence) && !PenaltyCounts::needed(sequence.request.params.sampling);
    if (n_guesses > 0 && ahead_[at] >= 0 && alike) {
      const std::span<const TokenId> guesses = sequence.guesses->last(item.n_guesses);
      for (size_t i = 1; i <= n_guesses; ++i)
        ahead_[at + i] = sampler_.add_behind(ahead_[at + i - 1], guesses[i - 1],
                                             task_of(sequence, row + i * n_vocab, static_cast<int>(i), {}));
    }
    at += 1 + n_guesses;
    row += (1 + n_guesses) * n_vocab;
  }
}

// The task of the sequence's next token, or why there is none.
int32_t StepLoop::ask_ahead(Sequence& sequence, const float* logits) {
  if (sequence.generated() == 0 && sequence.request.finishing[static_cast<size_t>(sequence.choice)]) return kNotAsked;
  if (!is_open(sequence)) return kNotAsked;
  TokenConstraint constraint;
  if (may_be_constrained(sequence)) {
    if (n_allowances_ == allowances_.size()) allowances_.emplace_back(n_vocab_);
    const RuleOutcome found = constrain(sequence, allowances_[n_allowances_++], constraint);
    if (found != RuleOutcome::kOk) return found == RuleOutcome::kSpent ? kRuleDue : kRuleFailed;
  }
  return sampler_.add(task_of(sequence, logits, 0, constraint));
}

// Whether it is sure that only the sampler can tell what comes next. Where a rule holds that is seen when tokens are
// taken; a sequence that has none yet is looked at in its turn.
bool StepLoop::is_open(const Sequence& sequence) {
  if (sequence.open_at == sequence.generated()) return true;
  if (must_direct(sequence)) return false;
  if (sequence.request.wants_logprobs()) return true;
  if (sequence.script.active()) {
    sequence.script.next(allowance_.list);
    return allowance_.list.size() > 1;
  }
  return !forces_rules_ || (!sequence.rule.active() && !sequence.format_due);
}

// If not, constrain() finds that every token may come.
bool StepLoop::may_be_constrained(const Sequence& sequence) {
  return sequence.script.active() || sequence.rule.active() || sequence.format_due || sequence.after_call != nullptr;
}

}  // namespace monolith
