// Guesses of the model's own layer for that (model/guess_layer.h): a pass of one row for each guess of each sequence,
// beginning with the hidden row before the sequence's newest token. Engine thread only, and after construction nothing
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
    TokenId token;    // that the next guess follows
    int hidden;       // GuessBatch::hidden of it
    int position;
  };

  void compute();

  Model& model_;
  const int n_tables_;
  HiddenRows hidden_;
  BatchSampler sampler_;
  std::vector<Task> tasks_;   // of this call
  std::vector<int32_t> tokens_, hidden_of_;
  std::vector<Segment> segments_;
};

}  // namespace monolith
