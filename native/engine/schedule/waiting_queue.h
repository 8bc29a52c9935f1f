// Queue of sequences without a sequence slot: requests that have not started, and forks that could not be assigned a
// slot immediately. Order: first come, first served within an organization; round-robin between organizations, counted
// in slots (running sequences). Engine thread only. The queue's size limits are enforced at submission (QueueRoom).
//
// The organizations form a ring. A turn in the ring is worth one slot. A request with n choices may take up to n slots;
// the excess becomes the organization's debt, and each later turn pays off one slot instead of taking one. The debt
// remains when the organization has nothing waiting, but is cleared when the whole queue is empty.
//
// An organization may also be offered a slot out of turn (`may_claim`). Slots taken out of turn become debt in full.
//
// If the oldest sequence of an organization lacks pages, the organization's later sequences wait, but other
// organizations may be admitted first. After that, every slot is offered to this organization before it is offered to
// other organizations. After it has been passed over kMaxPasses times, no other organization is admitted before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/schedule/scheduled_sequence.h"

namespace monolith {

enum class AdmissionResult : uint8_t {
  kAdmitted,
  kNotNow,  // The sequence cannot be admitted now, but other sequences may be.
  kNoRoom,  // There are not enough pages. Other organizations may be admitted first, but only kMaxPasses times.
};

class WaitingQueue {
 public:
  static constexpr int kMaxPasses = 16;
  // The maximum number of organizations that one admit() call may find to lack pages. Limits the cost of the call.
  static constexpr int kMaxLacking = 8;

  bool empty() const { return n_sequences_ == 0; }
  bool holds_one_of(uint64_t organization) const {
    return std::ranges::any_of(ring_, [=](const Organization& o) { return o.id == organization && !o.line.empty(); });
  }
  // True if `ready` returns true for at least one waiting sequence.
  template <typename Ready>
  bool has_ready(Ready&& ready) const {
    return std::ranges::any_of(ring_, [&](const Organization& organization) {
      return std::ranges::any_of(organization.line, [&](const auto& entry) { return ready(*entry.second); });
    });
  }
  size_t requests() const { return n_requests_; }     // Number of waiting requests that have not started.
  size_t prompt_tokens() const { return n_tokens_; }  // Number of prompt tokens of the waiting requests.
  // Adds a kWaiting or kForked sequence; its order() decides its position within the organization. If it throws
  // std::bad_alloc, the sequence has not been added.
  void push(ScheduledSequence& sequence);
  void remove(const ScheduledSequence& sequence);  // Removes a sequence; no effect if it is not in the queue.

  // Offers one sequence per organization, in the fair order, to `try_admit`, until one is admitted or no further
  // organization may be passed over. The admitted sequence leaves the queue, and `places` returns the number of slots
  // that it took. Sequences for which `ready` is false are skipped, as are organizations for which `may_claim` is
  // false. Returns null if none was admitted.
  template <typename Ready, typename TryAdmit, typename Places, typename MayClaim>
  ScheduledSequence* admit(Ready&& ready, TryAdmit&& try_admit, Places&& places, MayClaim&& may_claim) {
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
        const AdmissionResult result = try_admit(*sequence);
        if (result == AdmissionResult::kAdmitted) {
          ScheduledSequence* admitted = sequence;
          settle(turn, *admitted, places(*admitted), in_turn);
          return admitted;
        }
        if (result == AdmissionResult::kNoRoom && (!may_be_passed(organization, order) || ++n_lacking == kMaxLacking))
          return nullptr;
        break;
      }
    }
    return nullptr;
  }

  template <typename Ready, typename TryAdmit, typename Places>
  ScheduledSequence* admit(Ready&& ready, TryAdmit&& try_admit, Places&& places) {
    return admit(ready, try_admit, places, [](uint64_t) { return true; });
  }

  // Appends the request of every sequence for which `expired` returns true, each request once.
  template <typename Expired>
  void collect(Expired&& expired, std::vector<Request*>& out) const {
    for (const Organization& organization : ring_)
      // Choices of one request are adjacent, so comparing with the last entry finds duplicates.
      for (const auto& [order, sequence] : organization.line)
        if (expired(*sequence) && (out.empty() || out.back() != &sequence->request)) out.push_back(&sequence->request);
  }

 private:
  struct Organization {
    uint64_t id;
    std::map<uint64_t, ScheduledSequence*> line;  // Waiting sequences by order(), oldest first.
    int debt = 0;                                 // Number of turns that pay off slots already taken.
    int passes = 0;          // Admissions of other organizations since the sequence `lacking` was found to lack pages.
    uint64_t lacking = 0;    // order() of the oldest sequence if it lacked pages.
    bool lacks_now = false;  // True if the oldest sequence lacked pages in the current admit() call.
  };
  struct Turn {
    size_t at;        // Index of the organization in the ring.
    size_t distance;  // Number of organizations in the ring whose turn comes earlier in this round.
    int debt, passes;
  };

  void rank();
  static bool may_be_passed(Organization& organization, uint64_t order);
  void settle(const Turn& turn, const ScheduledSequence& admitted, int places, bool in_turn);
  void erase(Organization& organization, const ScheduledSequence& sequence);
  void drop_finished();
  size_t distance(size_t at) const { return (at + ring_.size() - next_ % ring_.size()) % ring_.size(); }

  std::vector<Organization> ring_;  // Organizations that have waiting sequences or debt.
  std::vector<Turn> turns_;         // Scratch of admit().
  size_t next_ = 0;                 // Index in the ring of the organization whose turn is next.
  size_t n_sequences_ = 0, n_requests_ = 0, n_tokens_ = 0;
};

}  // namespace monolith
