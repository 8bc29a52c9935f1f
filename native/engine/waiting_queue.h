// Requests that have not started: first come, first served within an organization, round-robin between
// organizations. Engine thread only; its bound is kept at submission.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/sequence.h"

namespace monolith {

enum class Admission : uint8_t {
  kAdmitted,
  kNotNow,   // others may go first
  kNoRoom,   // nobody may pass it: it would starve
};

class WaitingQueue {
 public:
  size_t size() const { return size_; }
  void push(Request& request);
  void remove(const Request& request);   // no-op if absent

  // Offers one request per organization, in turn, to `try_admit` until one is admitted (it leaves the
  // queue and its organization goes to the back) or there is no room. `ready` passes over requests.
  template <typename Ready, typename TryAdmit>
  Sequence* admit(Ready&& ready, TryAdmit&& try_admit) {
    for (size_t i = 0; i < ring_.size(); ++i) {
      const size_t at = (next_ + i) % ring_.size();
      for (Request* request : ring_[at].requests) {
        if (!ready(*request)) continue;
        const Admission admission = try_admit(*request->choices[0]);
        if (admission == Admission::kNoRoom) return nullptr;
        if (admission == Admission::kNotNow) break;
        next_ = at + 1;
        remove(*request);
        return request->choices[0].get();
      }
    }
    return nullptr;
  }

  // Appends every request for which `expired` holds.
  template <typename Expired>
  void collect(Expired&& expired, std::vector<Request*>& out) const {
    for (const Organization& organization : ring_)
      for (Request* request : organization.requests)
        if (expired(*request)) out.push_back(request);
  }

 private:
  struct Organization {
    uint64_t id;
    std::deque<Request*> requests;   // never empty
  };
  std::vector<Organization> ring_;
  size_t next_ = 0;   // whose turn it is
  size_t size_ = 0;
};

}  // namespace monolith
