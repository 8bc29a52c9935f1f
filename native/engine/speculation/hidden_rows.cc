#include "engine/speculation/hidden_rows.h"

#include <algorithm>
#include <cassert>

namespace monolith {

HiddenRows::HiddenRows(const ModelLimits& limits)
    : of_each_(limits.kept_of_each()), places_(static_cast<size_t>(limits.sequences_limit())) {
  runs_.reserve(static_cast<size_t>(limits.max_batch_tokens));
}

std::span<const HiddenRange> HiddenRows::runs(const StepPlan& plan) {
  runs_.clear();
  int row = 0;
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = *item.sequence;
    const int from = row_of(sequence, sequence.n_computed - 1), n_rows = item.n_tokens + item.n_drafts;
    const int place = place_of(sequence);
    const int n_kept = std::min(1 + item.n_drafts, of_each_);
    runs_.push_back({row, n_rows, from, place * of_each_, n_kept});
    places_[static_cast<size_t>(place)] = {&sequence, sequence.n_computed + n_rows - n_kept, n_kept};
    row += n_rows;
  }
  return runs_;
}

int HiddenRows::row_of(const Sequence& sequence, int position) const {
  if (sequence.hidden_slot < 0) return -1;
  const Place& place = places_[static_cast<size_t>(sequence.hidden_slot)];
  if (place.owner != &sequence || position < place.first || position >= place.first + place.n_rows) return -1;
  return sequence.hidden_slot * of_each_ + position - place.first;
}

// A free entry always exists, because there are as many entries as sequences may run.
int HiddenRows::place_of(Sequence& sequence) {
  if (sequence.hidden_slot >= 0 && places_[static_cast<size_t>(sequence.hidden_slot)].owner == &sequence)
    return sequence.hidden_slot;
  const auto is_free = [](const Place& place) { return !place.owner || place.owner->state != SequenceState::kRunning; };
  const auto at = std::ranges::find_if(places_, is_free);
  assert(at != places_.end());
  sequence.hidden_slot = static_cast<int>(at - places_.begin());
  return sequence.hidden_slot;
}

void HiddenRows::forget(const Sequence& sequence) {
  if (sequence.hidden_slot < 0) return;
  Place& place = places_[static_cast<size_t>(sequence.hidden_slot)];
  if (place.owner == &sequence) place = {};
}

}  // namespace monolith
