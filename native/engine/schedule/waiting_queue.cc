#include "engine/schedule/waiting_queue.h"

#include <algorithm>
#include <tuple>

#include "base/grow.h"

namespace monolith {

void WaitingQueue::push(ScheduledSequence& sequence) {
  const uint64_t id = sequence.organization;
  auto at = std::find_if(ring_.begin(), ring_.end(), [&](const Organization& o) { return o.id == id; });
  if (at == ring_.end()) {
    // A new organization gets its turn after all organizations that already wait.
    Organization newcomer{};
    newcomer.id = id;
    const auto place = ring_.begin() + static_cast<ptrdiff_t>(std::min(next_, ring_.size()));
    at = ring_.insert(place, std::move(newcomer));
    ++next_;
  }
  grow(turns_, ring_.size());  // rank() allocates nothing.
  at->line.emplace(sequence.order(), &sequence);
  ++n_sequences_;
  if (sequence.state != SequenceState::kWaiting) return;
  ++n_requests_;
  n_tokens_ += static_cast<size_t>(sequence.n_prompt);
}

void WaitingQueue::remove(const ScheduledSequence& sequence) {
  const uint64_t id = sequence.organization;
  const auto at = std::find_if(ring_.begin(), ring_.end(), [&](const Organization& o) { return o.id == id; });
  if (at == ring_.end() || !at->line.contains(sequence.order())) return;
  if (sequence.state == SequenceState::kWaiting) {
    --n_requests_;
    n_tokens_ -= static_cast<size_t>(sequence.n_prompt);
  }
  erase(*at, sequence);
  drop_finished();
}

void WaitingQueue::erase(Organization& organization, const ScheduledSequence& sequence) {
  organization.line.erase(sequence.order());
  --n_sequences_;
  if (organization.lacking == sequence.order()) organization.passes = 0;
}

// Orders the organizations for the next slot. Organizations that were passed over most often come first. Organizations
// that were never passed over follow in the order of the rounds in which their turns yield a slot.
void WaitingQueue::rank() {
  turns_.clear();
  for (size_t at = 0; at < ring_.size(); ++at) {
    Organization& organization = ring_[at];
    organization.lacks_now = false;
    if (!organization.line.empty()) turns_.push_back({at, distance(at), organization.debt, organization.passes});
  }
  std::sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) {
    return std::tuple(-a.passes, a.debt, a.distance) < std::tuple(-b.passes, b.debt, b.distance);
  });
}

bool WaitingQueue::may_be_passed(Organization& organization, uint64_t order) {
  if (organization.lacking != order) organization.passes = 0;
  organization.lacking = order;
  organization.lacks_now = true;
  return organization.passes < kMaxPasses;
}

void WaitingQueue::settle(const Turn& turn, const ScheduledSequence& admitted, int places, bool in_turn) {
  const bool claimed = !in_turn;
  // An organization that was passed over has already had its turn, so admitting it now does not affect the turns of the
  // others.
  in_turn = in_turn && turn.passes == 0;
  for (size_t at = 0; at < ring_.size(); ++at) {
    Organization& other = ring_[at];
    if (at == turn.at) continue;
    if (other.passes > 0 || other.lacks_now) ++other.passes;
    if (in_turn) other.debt = std::max(0, other.debt - turn.debt - (distance(at) < turn.distance ? 1 : 0));
  }
  Organization& taker = ring_[turn.at];
  taker.debt = (in_turn ? 0 : taker.debt) + places - (claimed ? 0 : 1);
  taker.passes = 0;
  if (in_turn) next_ = turn.at + 1;
  if (admitted.choice == 0) {  // Forks are not counted as waiting requests.
    --n_requests_;
    n_tokens_ -= static_cast<size_t>(admitted.n_prompt);
  }
  erase(taker, admitted);
  drop_finished();
}

void WaitingQueue::drop_finished() {
  size_t kept = 0, next = next_;
  for (size_t at = 0; at < ring_.size(); ++at) {
    const bool finished = n_sequences_ == 0 || (ring_[at].line.empty() && ring_[at].debt == 0);
    if (finished) {
      if (at < next_) --next;
      continue;
    }
    if (kept != at) ring_[kept] = std::move(ring_[at]);
    ++kept;
  }
  ring_.erase(ring_.begin() + static_cast<ptrdiff_t>(kept), ring_.end());
  next_ = next >= ring_.size() ? 0 : next;
}

}  // namespace monolith
