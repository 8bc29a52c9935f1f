#include "engine/speculation/speculative_decoder.h"

#include <algorithm>
#include <new>

namespace monolith {

SpeculativeDecoder::SpeculativeDecoder(const EngineOptions& options, Scheduler& scheduler, GrammarRunner& grammars,
                                       EngineCounters& counters, Model& model, Model* draft, int n_vocab)
    : speculation_(options.speculation),
      drafts_always_(speculation_ == Speculation::kAlways || (!draft && options.mtp == Speculation::kAlways)),
      scheduler_(scheduler),
      grammars_(grammars),
      counters_(counters) {
  if (draft) {
    drafter_ = std::make_unique<DraftModel>(*draft, n_vocab);
  } else if (model.drafts() && speculation_ != Speculation::kOff &&
             // An EAGLE-3 head was loaded explicitly, so it is used even if `mtp` is off.
             (options.mtp != Speculation::kOff || !model.limits().mtp_layer)) {
    auto own = std::make_unique<MtpDrafter>(model, n_vocab);
    own_ = own.get();
    drafter_ = std::move(own);
  }
  draft_requests_.reserve(Drafter::kMaxSequences);
  draft_items_.reserve(Drafter::kMaxSequences);
}

void SpeculativeDecoder::add_to(const StepPlan& plan) {
  draft_ms_ = 0;
  if (speculation_ == Speculation::kOff || static_cast<int>(plan.items.size()) != plan.n_decodes) return;
  const bool always = speculation_ == Speculation::kAlways;
  const bool asks_always = drafter_ && drafts_always_;
  if (!always && !asks_always &&
      (plan.n_decodes > AcceptanceModel::kMaxDecodes || acceptance_model_.wants_plain(plan.n_decodes)))
    return;
  const double price = always ? 0 : acceptance_model_.price(plan.n_decodes);
  n_decodes_ = plan.n_decodes;
  const bool use_drafter = drafter_ && (drafts_always_ || draft_budget_.may_draft());
  const double draft_price =
      drafts_always_ ? 0 : price + draft_budget_.step_ms(plan.n_decodes) / acceptance_model_.base_ms(plan.n_decodes);
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = sequence_of(*item.sequence);
    const int most = std::min(SequenceDrafts::kMax, sequence.request.max_length - sequence.length() - 1);
    if (!item.wants_logits || sequence.output.in_tag() || most <= 0) continue;
    std::span<const TokenId> drafts;
    try {
      if (!sequence.drafts)
        sequence.drafts = std::make_unique<SequenceDrafts>(sequence.request.max_length, draft_budget_.chance());
      if (sequence.prediction) drafts = sequence.drafts->propose(sequence.prediction->next(), price, most);
      if (drafts.empty()) drafts = sequence.drafts->draft(sequence.tokens, price, most);
      drafts = drafts.first(sequence.output.count_allowed(grammars_, sequence.tokens, drafts));
    } catch (const std::bad_alloc&) {
      continue;  // Output does not depend on draft tokens, so the sequence gets none in this step.
    }
    if (!drafts.empty()) {
      add(item, drafts);
    } else if (use_drafter && draft_requests_.size() < size_t{Drafter::kMaxSequences}) {
      std::span<TokenId> place =
          sequence.drafts->place_for_draft(draft_price, !always && drafts_always_ ? std::min(most, kMaxUnasked) : most);
      if (!place.empty() && drafter_->writes_pages()) {
        const int room = scheduler_.reserve_draft_pages(item, static_cast<int>(place.size()));
        place = place.first(static_cast<size_t>(std::max(room, 0)));
      }
      if (place.empty()) continue;
      draft_requests_.push_back({&sequence, sequence.tokens, place, 0, &sequence});
      draft_items_.push_back(&item);
    }
  }
  if (!draft_requests_.empty()) ask_drafter();
}

void SpeculativeDecoder::add(const StepPlan::Item& item, std::span<const TokenId> drafts) {
  const int n = scheduler_.add_drafts(item, static_cast<int>(drafts.size()));
  EngineCounters::add(counters_.draft_tokens, static_cast<uint64_t>(n));
  if (sequence_of(*item.sequence).drafts->drafted())
    EngineCounters::add(counters_.drafter_tokens, static_cast<uint64_t>(n));
}

// Runs the drafter for the sequences in draft_requests_.
void SpeculativeDecoder::ask_drafter() {
  draft_ms_ = drafter_->draft(draft_requests_, draft_budget_);
  draft_budget_.earn(-draft_ms_);
  for (size_t i = 0; i < draft_requests_.size(); ++i) {
    Sequence& sequence = sequence_of(*draft_items_[i]->sequence);
    const std::span<const TokenId> drafts = draft_requests_[i].out.first(static_cast<size_t>(draft_requests_[i].n));
    size_t n = 0;
    try {
      n = sequence.output.count_allowed(grammars_, sequence.tokens, drafts);
    } catch (const std::bad_alloc&) {
      continue;  // The sequence gets no draft tokens in this step.
    }
    if (n > 0)
      add(*draft_items_[i], drafts.first(n));
    else if (!drafts.empty())
      sequence.drafts->record_acceptance(0, true);  // The grammar does not allow the first draft token.
  }
  draft_requests_.clear();
  draft_items_.clear();
}

void SpeculativeDecoder::record_acceptance(Sequence& sequence, int n_drafts, int n_accepted, bool next_rejected) {
  sequence.drafts->record_acceptance(n_accepted, next_rejected);
  EngineCounters::add(counters_.accepted_draft_tokens, static_cast<uint64_t>(n_accepted));
  if (!sequence.drafts->drafted()) return;
  // Each accepted draft token saves its sequence's share of a step. Each draft token, accepted or not, costs the time
  // of one row.
  draft_budget_.earn(n_accepted * acceptance_model_.base_ms(n_decodes_) / n_decodes_ -
                     n_drafts * acceptance_model_.row_ms());
  draft_budget_.record_acceptance(n_accepted, next_rejected);
  EngineCounters::add(counters_.accepted_drafter_tokens, static_cast<uint64_t>(n_accepted));
}

void SpeculativeDecoder::note_step(const StepPlan& plan, double ms) {
  if (plan.n_rows != plan.n_decodes + plan.n_drafts) return;
  acceptance_model_.note(plan.n_decodes, plan.n_drafts, ms);
  draft_budget_.note_step(ms);
}

void SpeculativeDecoder::forget(const Sequence& sequence) {
  if (drafter_) drafter_->forget(&sequence);
}

}  // namespace monolith
