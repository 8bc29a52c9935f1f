// Speculative decoding for a step: decides whether draft tokens pay off, for which sequences and from which source
// (prompt lookup or drafter), and records their acceptance. Does not affect the output (speculation.h). Engine thread
// only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/speculation/draft_model.h"
#include "engine/speculation/mtp_drafter.h"
#include "engine/loop/engine_counters.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"

namespace monolith {

class SpeculativeDecoder {
 public:
  // `draft`: the draft model. If it is null, the EAGLE-3 head or MTP layers loaded with the model produce the draft
  // tokens, if there are any and `options` allow it.
  SpeculativeDecoder(const EngineOptions& options, Scheduler& scheduler, GrammarRunner& grammars,
                     EngineCounters& counters, Model& model, Model* draft, int n_vocab);

  // Hidden-state ranges that the step feeds to the MTP layers or EAGLE-3 head. Must be called after all draft tokens
  // have been added. Empty if the decoder uses neither.
  std::span<const HiddenRange> feed(const StepPlan& plan) {
    return own_ ? own_->feed(plan) : std::span<const HiddenRange>();
  }
  // Adds draft tokens to a step that consists only of decodes. Must be called after the plan's page copies have been
  // made.
  void add_to(const StepPlan& plan);
  // Records that the first `n_accepted` of the sequence's `n_drafts` draft tokens in this step were accepted.
  // `next_rejected`: whether the draft token after them was rejected; false if there was none.
  void record_acceptance(Sequence& sequence, int n_drafts, int n_accepted, bool next_rejected);
  // Records that the step took `ms` milliseconds, excluding the time spent drafting.
  void note_step(const StepPlan& plan, double ms);
  double draft_ms() const { return draft_ms_; }  // Milliseconds spent drafting in this step.
  // Must be called when a sequence has ended.
  void forget(const Sequence& sequence);
  bool consistent() const { return !drafter_ || drafter_->consistent(); }

 private:
  // Maximum number of draft tokens from MTP layers that always draft, without checking whether this pays off.
  static constexpr int kMaxUnasked = 4;

  void ask_drafter();
  void add(const StepPlan::Item& item, std::span<const TokenId> drafts);

  const Speculation speculation_;
  const bool drafts_always_;
  Scheduler& scheduler_;
  GrammarRunner& grammars_;
  EngineCounters& counters_;
  AcceptanceModel acceptance_model_;
  DraftBudget draft_budget_;
  std::unique_ptr<Drafter> drafter_;
  MtpDrafter* own_ = nullptr;                       // The same object as drafter_, if it is an MtpDrafter.
  std::vector<DraftRequest> draft_requests_;        // Draft requests of this step.
  std::vector<const StepPlan::Item*> draft_items_;  // The plan item of each request in draft_requests_.
  double draft_ms_ = 0;
  int n_decodes_ = 1;  // Number of decodes in the last step with draft tokens.
};

}  // namespace monolith
