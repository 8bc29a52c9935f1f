#include "engine/waiting_queue.h"

#include <algorithm>

namespace monolith {

void WaitingQueue::push(Request& request) {
  const uint64_t id = request.params.organization;
  auto at = std::find_if(ring_.begin(), ring_.end(), [&](const Organization& o) { return o.id == id; });
  if (at == ring_.end()) {
    // A newcomer's turn is after everybody already waiting.
    const auto place = ring_.begin() + static_cast<ptrdiff_t>(std::min(next_, ring_.size()));
    at = ring_.insert(place, Organization{id, {}});
    ++next_;
  }
  at->requests.push_back(&request);
  ++size_;
}

void WaitingQueue::remove(const Request& request) {
  for (size_t at = 0; at < ring_.size(); ++at) {
    std::deque<Request*>& requests = ring_[at].requests;
    const auto found = std::find(requests.begin(), requests.end(), &request);
    if (found == requests.end()) continue;
    requests.erase(found);
    --size_;
    if (requests.empty()) {
      ring_.erase(ring_.begin() + static_cast<ptrdiff_t>(at));
      if (next_ > at) --next_;
    }
    break;
  }
  if (next_ >= ring_.size()) next_ = 0;
}

}  // namespace monolith
