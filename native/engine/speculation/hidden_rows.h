// Assigns the model's saved hidden states (ModelLimits::kept_rows()) to running sequences, for MTP layers and EAGLE-3
// heads. Saved are the hidden states of a sequence's last token and of the draft tokens after it. Engine thread only;
// nothing allocates after construction.
//
// An entry belongs to a sequence while it runs, until another sequence needs the entry. A missing hidden state is not
// an error: a sequence that was restarted, or that took its prefix from the cache, drafts without it.
#pragma once

#include <span>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "model/model.h"

namespace monolith {

class HiddenRows {
 public:
  explicit HiddenRows(const ModelLimits& limits);

  // Hidden-state ranges that this step feeds to the MTP layer. Valid until the next call.
  std::span<const HiddenRange> runs(const StepPlan& plan);
  // Index of the saved hidden state of a position; -1: not saved.
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

}  // namespace monolith
