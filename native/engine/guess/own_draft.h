// Guesses of the model's own layer for that, or of a head that it was loaded with (model/guess_layer.h): a pass of one row
// for each guess of each sequence, beginning with the hidden row before the sequence's newest token; as long as there is a
// further level for each guess, of all rows from the newest token on. Engine thread only, and after construction nothing
// allocates.
//
// The layer's keys and values lie in the sequences' own pages. What a step computes feeds the layer at the same
// positions, so they are shared, forked and given back with these, and what was written for a guess is written anew by
// the step that computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/guess/drafter.h"
#include "engine/guess/hidden_rows.h"
#include "engine/sampling/batch_sampler.h"

namespace monolith {

class OwnDraft final : public Drafter {
 public:
  // Tokens are below `n_vocab`. The model, which guesses, outlives this.
  OwnDraft(Model& model, int n_vocab);

  // What a step feeds the layer with.
  std::span<const HiddenRun> feed(const StepPlan& plan) { return hidden_.runs(plan); }

  double draft(std::span<DraftWish> wishes, DraftPace& pace) override;
  void forget(const void* owner) override { hidden_.forget(*static_cast<const Sequence*>(owner)); }
  bool writes_pages() const override { return true; }

 private:
  struct Task {
    DraftWish* wish;
    TokenId token;     // the sequence's newest
    int hidden;        // the kept row before it
    int position;      // its own
    int last_row = 0;  // of the sequence in the last pass
  };

  void compute(int pass);
  void add_rows(Task& task, int pass);

  Model& model_;
  const int n_tables_, n_levels_;
  const std::span<const int32_t> chosen_;  // tokens that the logits are of; empty: all
  const int n_vocab_, n_logits_;           // tokens there are; logits of a row
  HiddenRows hidden_;
  BatchSampler sampler_;
  std::vector<Task> tasks_;  // of this call
  std::vector<int32_t> tokens_, hidden_of_;
  std::vector<Segment> segments_;
};

}  // namespace monolith
