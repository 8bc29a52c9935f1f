// Drafting with the model's own MTP layers or an EAGLE-3 head (model/mtp_layer.h). Each draft token takes one pass per
// sequence, starting from the hidden state before the sequence's newest token. As long as each draft token has its own
// MTP level, a pass computes all rows starting at the newest token; after that, only one row. Engine thread only;
// nothing allocates after construction.
//
// The layer's keys and values are stored in the sequences' own pages. Every step feeds the layer at the positions that
// it computes, so these entries are shared, forked and released together with the pages. Entries written for draft
// tokens are overwritten by the step that computes these positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/drafter.h"
#include "engine/sampling/batch_sampler.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace monolith {

// Assigns the model's saved hidden states (ModelLimits::kept_rows()) to running sequences, for MTP layers and EAGLE-3
// heads. The hidden states of a sequence's last token and of the draft tokens after it are saved.
//
// A running sequence keeps its entry; once it has stopped running, another sequence may take the entry. A missing
// hidden state is not an error: a sequence that was restarted, or that took its prefix from the cache, drafts without
// it.
class HiddenRows {
 public:
  explicit HiddenRows(const ModelLimits& limits);

  // Hidden-state ranges that this step feeds to the MTP layers. Valid until the next call.
  std::span<const HiddenRange> runs(const StepPlan& plan);
  // Index of the saved hidden state for a position; -1 = not saved.
  int row_of(const Sequence& sequence, int position) const;
  void forget(const Sequence& sequence);

 private:
  struct Place {
    const Sequence* owner = nullptr;
    int first = 0, n_rows = 0;  // Range of positions whose hidden states are saved.
  };

  int place_of(Sequence& sequence);

  const int of_each_;
  std::vector<Place> places_;
  std::vector<HiddenRange> runs_;
};

class MtpDrafter final : public Drafter {
 public:
  // All token IDs are below `n_vocab`. The model must outlive the MtpDrafter.
  MtpDrafter(Model& model, int n_vocab);

  // The hidden-state ranges that the step feeds to the MTP layers.
  std::span<const HiddenRange> feed(const StepPlan& plan) { return hidden_.runs(plan); }

  double draft(std::span<DraftRequest> requests, DraftBudget& pace) override;
  void forget(const void* owner) override { hidden_.forget(*static_cast<const Sequence*>(owner)); }
  bool writes_pages() const override { return true; }

 private:
  struct Task {
    DraftRequest* request;
    TokenId token;     // The sequence's newest token.
    int hidden;        // Index of the saved hidden state before the newest token.
    int position;      // Position of the newest token.
    int last_row = 0;  // Index of the sequence's last row in the previous pass.
  };

  void compute(int pass);
  void add_rows(Task& task, int pass);

  Model& model_;
  const int n_tables_, n_levels_;
  const std::span<const int32_t> chosen_;  // Token IDs that the logits refer to; empty = the whole vocabulary.
  const int n_vocab_, n_logits_;           // Vocabulary size, and number of logits per row.
  HiddenRows hidden_;
  BatchSampler sampler_;
  std::vector<Task> tasks_;  // Tasks of the current draft() call.
  std::vector<int32_t> tokens_, hidden_of_;
  std::vector<Segment> segments_;
};

}  // namespace monolith
