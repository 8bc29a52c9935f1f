#include "engine/guess/step_guesses.h"

#include <algorithm>

namespace monolith {

StepGuesses::StepGuesses(Speculation speculation, Scheduler& scheduler, Constraints& constraints, EngineCounters& counters,
                         Model* draft, int n_vocab)
    : speculation_(speculation), scheduler_(scheduler), constraints_(constraints), counters_(counters) {
  if (draft) draft_ = std::make_unique<DraftModel>(*draft, n_vocab);
  wishes_.reserve(DraftModel::kMostSequences);
  wish_items_.reserve(DraftModel::kMostSequences);
}

void StepGuesses::add_to(const StepPlan& plan) {
  draft_ms_ = 0;
  if (speculation_ == Speculation::kOff || static_cast<int>(plan.items.size()) != plan.n_decodes) return;
  const bool always = speculation_ == Speculation::kAlways;
  if (!always && (plan.n_decodes > GuessPace::kMostDecodes || guess_pace_.wants_plain(plan.n_decodes))) return;
  const double price = always ? 0 : guess_pace_.price(plan.n_decodes);
  n_decodes_ = plan.n_decodes;
  const bool drafts = draft_ && (always || draft_pace_.may_draft());
  const double draft_price = always ? 0 : price + draft_pace_.step_ms(plan.n_decodes) / guess_pace_.base_ms(plan.n_decodes);
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = *item.sequence;
    const int most = std::min(Guesses::kMost, sequence.request.max_length - sequence.length() - 1);
    if (!item.wants_logits || sequence.script.active() || most <= 0) continue;
    if (!sequence.guesses) sequence.guesses = std::make_unique<Guesses>(sequence.request.max_length, draft_pace_.chance());
    std::span<const TokenId> guesses = sequence.guesses->guess(sequence.tokens, price, most);
    guesses = guesses.first(constraints_.count_allowed(sequence, guesses));
    if (!guesses.empty()) {
      add(item, guesses);
    } else if (drafts && wishes_.size() < size_t{DraftModel::kMostSequences}) {
      const std::span<TokenId> place = sequence.guesses->place_for_draft(draft_price, most);
      if (place.empty()) continue;
      wishes_.push_back({&sequence, sequence.tokens, place});
      wish_items_.push_back(&item);
    }
  }
  if (!wishes_.empty()) ask_draft();
}

void StepGuesses::add(const StepPlan::Item& item, std::span<const TokenId> guesses) {
  const int n = scheduler_.add_guesses(item, static_cast<int>(guesses.size()));
  EngineCounters::add(counters_.guessed_tokens, static_cast<uint64_t>(n));
  if (item.sequence->guesses->drafted()) EngineCounters::add(counters_.drafted_tokens, static_cast<uint64_t>(n));
}

// Guesses of the draft for the sequences in wishes_.
void StepGuesses::ask_draft() {
  draft_ms_ = draft_->draft(wishes_, draft_pace_);
  draft_pace_.earn(-draft_ms_);
  for (size_t i = 0; i < wishes_.size(); ++i) {
    Sequence& sequence = *wish_items_[i]->sequence;
    const std::span<const TokenId> guesses = wishes_[i].out.first(static_cast<size_t>(wishes_[i].n));
    const size_t n = constraints_.count_allowed(sequence, guesses);
    if (n > 0) add(*wish_items_[i], guesses.first(n));
    else if (!guesses.empty()) sequence.guesses->settle(0, true);   // the rule refuses the first
  }
  wishes_.clear();
  wish_items_.clear();
}

void StepGuesses::settle(Sequence& sequence, int n_guesses, int n_right, bool then_wrong) {
  sequence.guesses->settle(n_right, then_wrong);
  EngineCounters::add(counters_.guessed_right, static_cast<uint64_t>(n_right));
  if (!sequence.guesses->drafted()) return;
  // A right guess saves its sequence's share of a step, and each cost a row.
  draft_pace_.earn(n_right * guess_pace_.base_ms(n_decodes_) / n_decodes_ - n_guesses * guess_pace_.row_ms());
  draft_pace_.settle(n_right, then_wrong);
  EngineCounters::add(counters_.drafted_right, static_cast<uint64_t>(n_right));
}

void StepGuesses::note_step(const StepPlan& plan, double ms) {
  if (plan.n_rows != plan.n_decodes + plan.n_guesses) return;
  guess_pace_.note(plan.n_decodes, plan.n_guesses, ms);
  draft_pace_.note_step(ms);
}

void StepGuesses::forget(const Sequence& sequence) {
  if (draft_) draft_->forget(&sequence);
}

}  // namespace monolith
