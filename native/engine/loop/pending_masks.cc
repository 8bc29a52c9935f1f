#include "engine/loop/pending_masks.h"

#include <algorithm>
#include <new>

namespace monolith {

bool PendingMasks::update(const std::vector<ScheduledSequence*>& preempted) {
  blocked_.clear();
  try {
    for (ScheduledSequence* scheduled : preempted)
      if (Sequence& sequence = sequence_of(*scheduled); sequence.output.is_blocked())
        blocked_.emplace_back(&sequence, 0);
  } catch (const std::bad_alloc&) {  // The sequences that are missing from the list get their turn in a later step.
  }
  if (blocked_.empty()) return true;
  std::ranges::rotate(blocked_, blocked_.begin() + static_cast<ptrdiff_t>(first_++ % blocked_.size()));
  for (size_t i = 0; i < blocked_.size(); ++i) {
    const uint64_t organization = blocked_[i].first->request.params.organization;
    blocked_[i].second =
        std::count_if(blocked_.begin(), blocked_.begin() + static_cast<ptrdiff_t>(i),
                      [&](const auto& one) { return one.first->request.params.organization == organization; });
  }
  std::ranges::stable_sort(blocked_, {}, &std::pair<Sequence*, ptrdiff_t>::second);
  bool has_memory = true;
  for (const auto& [sequence, turn] : blocked_) {
    try {
      sequence->output.try_unblock(grammars_, sequence->tokens);
    } catch (const std::bad_alloc&) {
      sequence->request.out_of_memory = true;
      has_memory = false;
    }
  }
  return has_memory;
}

}  // namespace monolith
