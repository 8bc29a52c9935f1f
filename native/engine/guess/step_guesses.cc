#include "engine/guess/step_guesses.h"

#include <algorithm>

namespace monolith {

StepGuesses::StepGuesses(const EngineOptions& options, Scheduler& scheduler, Constraints& constraints,
                         EngineCounters& counters, Model& model, Model* draft, int n_vocab)
    : speculation_(options.speculation),
      drafts_always_(speculation_ == Speculation::kAlways || (!draft && options.own_guesses == Speculation::kAlways)),
      scheduler_(scheduler),
      constraints_(constraints),
      counters_(counters) {
  if (draft) {
    drafter_ = std::make_unique<DraftModel>(*draft, n_vocab);
  } else if (model.guesses() && speculation_ != Speculation::kOff &&
             // An EAGLE-3 head was loaded explicitly, so it is used even if `own_guesses` is off.
             (options.own_guesses != Speculation::kOff || !model.limits().guess_layer)) {
    auto own = std::make_unique<OwnDraft>(model, n_vocab);
    own_ = own.get();
    drafter_ = std::move(own);
  }
  wishes_.reserve(Drafter::kMostSequences);
  wish_items_.reserve(Drafter::kMostSequences);
}

void StepGuesses::add_to(const StepPlan& plan) {
  draft_ms_ = 0;
  if (speculation_ == Speculation::kOff || static_cast<int>(plan.items.size()) != plan.n_decodes) return;
  const bool always = speculation_ == Speculation::kAlways;
  const bool asks_always = drafter_ && drafts_always_;
  if (!always && !asks_always && (plan.n_decodes > GuessPace::kMostDecodes || guess_pace_.wants_plain(plan.n_decodes)))
    return;
  const double price = always ? 0 : guess_pace_.price(plan.n_decodes);
  n_decodes_ = plan.n_decodes;
  const bool drafts = drafter_ && (drafts_always_ || draft_pace_.may_draft());
  const double draft_price =
      drafts_always_ ? 0 : price + draft_pace_.step_ms(plan.n_decodes) / guess_pace_.base_ms(plan.n_decodes);
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = *item.sequence;
    const int most = std::min(Guesses::kMost, sequence.request.max_length - sequence.length() - 1);
    if (!item.wants_logits || sequence.script.active() || most <= 0) continue;
    if (!sequence.guesses)
      sequence.guesses = std::make_unique<Guesses>(sequence.request.max_length, draft_pace_.chance());
    std::span<const TokenId> guesses = sequence.guesses->guess(sequence.tokens, price, most);
    guesses = guesses.first(constraints_.count_allowed(sequence, guesses));
    if (!guesses.empty()) {
      add(item, guesses);
    } else if (drafts && wishes_.size() < size_t{Drafter::kMostSequences}) {
      std::span<TokenId> place = sequence.guesses->place_for_draft(
          draft_price, !always && drafts_always_ ? std::min(most, kMostUnasked) : most);
      if (!place.empty() && drafter_->writes_pages()) {
        const int room = scheduler_.make_guess_room(item, static_cast<int>(place.size()));
        place = place.first(static_cast<size_t>(std::max(room, 0)));
      }
      if (place.empty()) continue;
      wishes_.push_back({&sequence, sequence.tokens, place, 0, &sequence});
      wish_items_.push_back(&item);
    }
  }
  if (!wishes_.empty()) ask_drafter();
}

void StepGuesses::add(const StepPlan::Item& item, std::span<const TokenId> guesses) {
  const int n = scheduler_.add_guesses(item, static_cast<int>(guesses.size()));
  EngineCounters::add(counters_.guessed_tokens, static_cast<uint64_t>(n));
  if (item.sequence->guesses->drafted()) EngineCounters::add(counters_.drafted_tokens, static_cast<uint64_t>(n));
}

// Runs the drafter for the sequences in wishes_.
void StepGuesses::ask_drafter() {
  draft_ms_ = drafter_->draft(wishes_, draft_pace_);
  draft_pace_.earn(-draft_ms_);
  for (size_t i = 0; i < wishes_.size(); ++i) {
    Sequence& sequence = *wish_items_[i]->sequence;
    const std::span<const TokenId> guesses = wishes_[i].out.first(static_cast<size_t>(wishes_[i].n));
    const size_t n = constraints_.count_allowed(sequence, guesses);
    if (n > 0)
      add(*wish_items_[i], guesses.first(n));
    else if (!guesses.empty())
      sequence.guesses->settle(0, true);  // The grammar does not allow the first draft token.
  }
  wishes_.clear();
  wish_items_.clear();
}

void StepGuesses::settle(Sequence& sequence, int n_guesses, int n_right, bool then_wrong) {
  sequence.guesses->settle(n_right, then_wrong);
  EngineCounters::add(counters_.guessed_right, static_cast<uint64_t>(n_right));
  if (!sequence.guesses->drafted()) return;
  // An accepted draft token saves its sequence's share of a step, and each draft token has cost one row.
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
  if (drafter_) drafter_->forget(&sequence);
}

}  // namespace monolith
