// Decides which sequences run: assigns sequence slots and pages in the fair order of WaitingQueue, and preempts
// sequences. Owns the lists of waiting, running and preempted sequences. Engine thread only.
//
// Entitlements: an organization that has work but no running sequence is entitled to a slot immediately. If no slot is
// free or there are too few pages, sequences of other organizations are preempted: the youngest sequence of the
// organization with the most slots first. An organization's only sequence is never preempted for this, nor is a
// sequence that was preempted this way before and has generated fewer than kMinRunTokens tokens since. One entitlement
// preempts at most kMaxPreempted sequences. Preempted sequences resume like any other.
//
// A sequence is admitted if there are pages for its whole prompt (for sliding-window layers: for one window and one
// step) plus one page for each running sequence. A request with n choices can receive up to n slots together. Its other
// choices wait for their organization's turn one at a time. A sequence that lacked pages is looked up in the prefix
// cache again only when enough pages are available or its organization's part of the cache has changed.
//
// A running sequence never fails for lack of pages: if no page is free for it, the youngest running sequence is
// preempted, possibly the one that needs the page. The oldest sequence therefore always advances.
//
// Background sequences have a separate queue, and in the lists they come after all other sequences. See scheduler.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/cache_changes.h"
#include "engine/schedule/page_mover.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/schedule/step_limits.h"
#include "engine/schedule/waiting_queue.h"

namespace monolith {

class Admission {
 public:
  // Minimum number of tokens that a sequence generates between two preemptions for other organizations.
  static constexpr int kMinRunTokens = 64;
  static constexpr int kMaxPreempted = 4;     // Maximum sequences preempted for one entitlement.
  static constexpr int kMaxEntitlements = 8;  // Maximum entitlements served per step.

  Admission(const PrefixCache& cache, PageMover& pages, const CacheChanges& changes, const StepLimits& limits);

  void add(ScheduledSequence& sequence);  // Adds choice 0 of a request to the queue.
  // Starts choice `fork`, sharing all pages of `lead`, which has computed the whole prompt. A fork without a reserved
  // slot is queued, unless a slot is free and nothing waits. May throw std::bad_alloc, in which case the fork holds no
  // resources.
  void fork(ScheduledSequence& lead, ScheduledSequence& fork);
  void remove(ScheduledSequence& sequence);  // Removes a sequence from its list and releases its pages.

  void start_step();       // Called before a step is planned.
  void preempt_blocked();  // Preempts running sequences that cannot advance now.
  // Allocates the next window pages of running prompts.
  void extend_windows();
  // Serves organizations without a slot. Runs before the decodes are planned, because a preempted sequence must not be
  // in the plan.
  void serve_entitlements();
  // Makes the pages of the sequence's next `n_tokens` positions writable. Returns false if the sequence was preempted.
  bool make_writable(ScheduledSequence& sequence, int n_tokens, std::vector<StepPlan::PageCopy>& copies);
  // Counts the slots that running requests have reserved for their other choices.
  void count_reserved_slots();
  bool may_admit() const;
  // Admits one sequence. Preempted sequences, whose organization has already paid for the slot, come before waiting
  // sequences. `prompts`: the prompts planned for the same step. Returns null if no sequence was admitted.
  ScheduledSequence* admit_one(std::span<ScheduledSequence* const> prompts);

  // Counts each organization's slots, for is_only_one().
  void count_slots();
  // True if the sequence is the only one of its organization, counting waiting and preempted sequences but not
  // background sequences. False for background sequences. If an organization sends many long prompts, the result is
  // false for all of them, so no separate step is planned for any of them.
  bool is_only_one(const ScheduledSequence& sequence) const;

  // True while a sequence that is not a background sequence is ready to start or resume, or computes its prompt. Then
  // no background sequence is admitted, and no background prompt is computed.
  bool holds_back_background() const;

  const WaitingQueue& waiting() const { return waiting_; }  // Without background sequences.
  const WaitingQueue& waiting_background() const { return waiting_background_; }
  const std::vector<ScheduledSequence*>& running() const { return running_; }      // Sorted by order().
  const std::vector<ScheduledSequence*>& preempted() const { return preempted_; }  // Sorted by order().
  uint64_t preemptions() const { return preemptions_; }
  // True if, for lack of free pages, a sequence that was otherwise ready was not admitted to this step or was
  // preempted.
  bool lacked_pages() const { return lacked_pages_; }
  // True if a sequence was omitted from this step because its memory could not be allocated.
  bool ran_out_of_memory() const { return ran_out_of_memory_; }

 private:
  // Number of sequence slots that one organization holds: the number of its running sequences, without background
  // sequences.
  struct Holder {
    uint64_t organization;
    int places;
  };

  int slots_of(uint64_t organization) const;
  void add_slots(uint64_t organization, int places);
  int free_slots() const { return limits_.max_sequences - static_cast<int>(running_.size()) - reserved_slots_; }
  WaitingQueue& queue_of(const ScheduledSequence& sequence) {
    return sequence.background ? waiting_background_ : waiting_;
  }
  bool runs_background() const { return !running_.empty() && running_.back()->background; }
  bool serve_one_entitlement();
  AdmissionResult try_entitle(ScheduledSequence& sequence);
  bool preempt_for(const ScheduledSequence& sequence);
  ScheduledSequence* choose_victim() const;
  void preempt(ScheduledSequence& sequence);
  void preempt_for_pages(ScheduledSequence& sequence);
  ScheduledSequence* resume_one(bool background, std::span<ScheduledSequence* const> prompts, bool& lacks_room);
  ScheduledSequence* admit_from(WaitingQueue& queue, std::span<ScheduledSequence* const> prompts);
  AdmissionResult try_admit(ScheduledSequence& sequence, std::span<ScheduledSequence* const> prompts);
  AdmissionResult no_room();
  bool still_lacks_room(const ScheduledSequence& sequence) const;
  bool allocate(ScheduledSequence& sequence);

  const PrefixCache& cache_;
  PageMover& pages_;
  const CacheChanges& changes_;
  const StepLimits& limits_;
  WaitingQueue waiting_, waiting_background_;
  std::vector<ScheduledSequence*> running_;
  std::vector<ScheduledSequence*> preempted_;
  std::vector<Holder> holders_;  // Sorted by organization. Valid while entitlements are served and prompts are planned.
  std::vector<ScheduledSequence*> victims_;  // Scratch of preempt_for().
  int reserved_slots_ = 0;  // Sum of the slots that running requests have reserved for their other choices.
  // True if a sequence was preempted in this step. Nothing is admitted then, because sequences would preempt each other
  // in turn.
  bool preempted_now_ = false;
  bool ran_out_of_memory_ = false;
  bool lacked_pages_ = false;
  uint64_t next_arrival_ = 0;
  uint64_t preemptions_ = 0;
};

}  // namespace monolith
