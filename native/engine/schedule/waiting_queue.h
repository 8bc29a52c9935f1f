// Sequences without a place yet: requests that have not started, and forks that found no place when they were
// made. First come, first served within an organization; round-robin between organizations, counted in
// places (running sequences). Engine thread only; its bound is kept at submission.
//
// The organizations stand in a ring. Whose turn it is takes one place; what it takes beyond (a request of n
// choices takes up to n) is its debt, and each later turn only pays one place of it. A debt outlives the
// line that made it, but not the ring: when nobody is left waiting there is nothing to be fair about.
//
// An organization may be offered a place out of turn (`may_claim`); what it takes then is all debt, so that
// its turns in the ring pay for it.
//
// A head that lacks pages holds up its own organization, and others may go first; from then on it is offered
// every place before them, and once it has been passed kMostPasses times nobody passes it any more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/schedule/sequence.h"

namespace monolith {

enum class Admission : uint8_t {
  kAdmitted,
  kNotNow,  // others may go first
  kNoRoom,  // pages are lacking: others may go first a bounded number of times
};

class WaitingQueue {
 public:
  static constexpr int kMostPasses = 16;
  static constexpr int kMostLacking = 8;  // heads found to lack pages in one look: bounds its cost

  bool empty() const { return n_sequences_ == 0; }
  bool holds_one_of(uint64_t organization) const {
    return std::ranges::any_of(ring_, [=](const Organization& o) { return o.id == organization && !o.line.empty(); });
  }
  size_t requests() const { return n_requests_; }     // those that have not started
  size_t prompt_tokens() const { return n_tokens_; }  // of these
  void push(Sequence& sequence);                      // kWaiting or kForked; its order() decides its place
  void remove(const Sequence& sequence);              // no-op if absent

  // Offers one sequence per organization, in the fair order, to `try_admit` until one is admitted (it leaves
  // the queue; `places` then says how many it took) or nobody may go. `ready` passes over sequences.
  // Organizations for which `may_claim` does not hold are passed over.
  template <typename Ready, typename TryAdmit, typename Places, typename MayClaim>
  Sequence* admit(Ready&& ready, TryAdmit&& try_admit, Places&& places, MayClaim&& may_claim) {
    const auto claims = [&](const Organization& o) { return !o.line.empty() && may_claim(o.id); };
    if (std::none_of(ring_.begin(), ring_.end(), claims)) return nullptr;
    rank();
    int n_lacking = 0;
    bool in_turn = true;
    for (const Turn& turn : turns_) {
      Organization& organization = ring_[turn.at];
      if (!may_claim(organization.id)) {
        in_turn = false;
        continue;
      }
      for (const auto& [order, sequence] : organization.line) {
        if (!ready(*sequence)) continue;
        const Admission admission = try_admit(*sequence);
        if (admission == Admission::kAdmitted) {
          Sequence* admitted = sequence;
          settle(turn, *admitted, places(*admitted), in_turn);
          return admitted;
        }
        if (admission == Admission::kNoRoom && (!may_be_passed(organization, order) || ++n_lacking == kMostLacking))
          return nullptr;
        break;
      }
    }
    return nullptr;
  }

  template <typename Ready, typename TryAdmit, typename Places>
  Sequence* admit(Ready&& ready, TryAdmit&& try_admit, Places&& places) {
    return admit(ready, try_admit, places, [](uint64_t) { return true; });
  }

  // Appends the request of every sequence for which `expired` holds, each once.
  template <typename Expired>
  void collect(Expired&& expired, std::vector<Request*>& out) const {
    for (const Organization& organization : ring_)
      for (const auto& [order, sequence] : organization.line)  // choices of one request are neighbours
        if (expired(*sequence) && (out.empty() || out.back() != &sequence->request)) out.push_back(&sequence->request);
  }

 private:
  struct Organization {
    uint64_t id;
    std::map<uint64_t, Sequence*> line;  // by age
    int debt = 0;                        // turns that take nothing
    int passes = 0;                      // admissions of others since `lacking` was found to lack pages
    uint64_t lacking = 0;                // order() of that sequence
    bool lacks_now = false;              // in the present look
  };
  struct Turn {
    size_t at;        // in the ring
    size_t distance;  // organizations whose turn is before, in a round
    int debt, passes;
  };

  void rank();
  static bool may_be_passed(Organization& organization, uint64_t order);
  void settle(const Turn& turn, const Sequence& admitted, int places, bool in_turn);
  void erase(Organization& organization, const Sequence& sequence);
  void drop_finished();
  size_t distance(size_t at) const { return (at + ring_.size() - next_ % ring_.size()) % ring_.size(); }

  std::vector<Organization> ring_;  // those that wait or owe
  std::vector<Turn> turns_;         // scratch of admit
  size_t next_ = 0;                 // whose turn it is
  size_t n_sequences_ = 0, n_requests_ = 0, n_tokens_ = 0;
};

}  // namespace monolith
