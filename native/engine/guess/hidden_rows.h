// Which sequence's hidden rows the model keeps where (ModelLimits::kept_rows()), for its layer that guesses: of each
// running sequence those of its last token and of the guesses computed behind it. Engine thread only; allocates nothing
// after construction.
//
// A place belongs to a sequence as long as it runs, and until another needs it. What is not there is not missed: a
// sequence that has begun anew, or with what others have computed, is fed without.
#pragma once

#include <span>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "model/model.h"

namespace monolith {

class HiddenRows {
 public:
  explicit HiddenRows(const ModelLimits& limits);

  // What the layer is fed with in this step. Valid until the next call.
  std::span<const HiddenRun> runs(const StepPlan& plan);
  // The kept row of a position; -1: it is not there.
  int row_of(const Sequence& sequence, int position) const;
  void forget(const Sequence& sequence);

 private:
  struct Place {
    const Sequence* owner = nullptr;
    int first = 0, n_rows = 0;  // positions
  };

  int place_of(Sequence& sequence);

  const int of_each_;
  std::vector<Place> places_;
  std::vector<HiddenRun> runs_;
};

}  // namespace monolith
