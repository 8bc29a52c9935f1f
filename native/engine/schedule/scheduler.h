// Decides which tokens each engine step computes and which KV pages store them. Engine thread only. The scheduler is
// independent of logits, text and the clock.
//
// plan() works in this order of precedence:
// 1. Entitlements (Admission). An organization that has work but no running sequence gets a sequence slot immediately,
//    if necessary by preempting sequences of other organizations.
// 2. First tokens (PrefillPlanner). A prompt that is its organization's only sequence and fits into one step is
//    prefilled in a step without the decodes of other sequences. The prefill then takes no longer than on an idle
//    engine. At least kStepsBetween ordinary steps come between two steps of this kind. The decodes skip no token; each
//    token comes one step later.
// 3. Decodes (Scheduler). Every decoding sequence gets its next token. If the engine has appended several forced tokens
//    to a sequence, they are computed together if the budget allows. Their budget is what remains of max_batch_tokens
//    after one token per decode and a quarter for prefill, but at most half of the caller's prefill bound, which is
//    reduced accordingly. If no page is free, the youngest running sequence is preempted, possibly the one that needs
//    the page. The oldest sequence therefore always advances, and a running sequence never fails for lack of pages.
//    Background sequences are treated as younger than all others.
// 4. Prefill (PrefillPlanner). Prompt chunks fill the remainder of max_batch_tokens, and always receive at least a
//    quarter of it: the number of running sequences is limited accordingly. Organizations share this prefill budget
//    evenly, and unused parts go to the others. An organization whose only sequence still waits for its first token has
//    kFirstTokenShares shares, every other organization has one. Within an organization, the oldest prompt receives at
//    least half, and the rest of the budget goes first to the prompts with the fewest remaining tokens. The oldest
//    prompt of all organizations always receives tokens. While sequences decode, the caller's bound (PrefillBudget)
//    applies too.
// 5. Admission (Admission). The remaining budget admits sequences: first preempted sequences, whose organization has
//    already paid for the slot, then waiting sequences in the fair order of WaitingQueue. An admitted sequence's first
//    chunk is computed in the same step.
//
// Each class calls only classes to its right or below it, so the calls form a directed acyclic graph:
//
//   Scheduler ──► PrefillPlanner ──► Admission ──► PageMover ──► SnapshotKeeper ──► PrefixCache, StateSlots
//       │               │                │             │               ▲
//       │               │                ▼             ▼               │
//       │               │          WaitingQueue   CacheChanges         │
//       │               └────────► StepBuilder ────────────────────────┤
//       └──► StepBuilder, Admission, PageMover, SnapshotKeeper ────────┘
//
//   PrefillPlanner   how many prompt tokens each prompt gets in a step
//   Admission        which sequences run: slots, fair order, preemption
//   PageMover        the pages and prefix-cache nodes of one sequence
//   SnapshotKeeper   the recurrent-state slots and snapshots of one sequence
//   StepBuilder      the plan under construction and its logit rows
//
// Guarantee: however many requests other organizations have, an organization's first token takes as many steps as on an
// idle engine if its prompt fits into half a step, and at most twice as many otherwise. This requires that some
// organization holds a second slot that it can lose, that at most kMaxEntitlements entitlements arise in one step, and
// that the caller's bound does not limit the prompt chunk.
//
// Background sequences (batch requests) yield to all others, called normal sequences here. Normal sequences are
// admitted first. If a normal sequence lacks a slot or pages, it preempts background sequences, youngest first. While a
// normal sequence is ready to start or resume, or computes its prompt, no background sequence is admitted and
// background prompts get no tokens, but background sequences continue to decode. They do not count towards their
// organization's slots, have no entitlements, and are not computed in steps of first tokens. The fair order of
// WaitingQueue also applies among background sequences.
//
// Prompt log-probabilities: such a prompt takes no pages from the prefix cache, which stores no logits, but adds its
// pages to it.
//
// Worst-case delay of a decode without bidirectional spans: a step of first tokens, then a step of
// max(max_batch_tokens, decodes + max_batch_tokens / 4) tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/admission.h"
#include "engine/schedule/cache_changes.h"
#include "engine/schedule/page_mover.h"
#include "engine/schedule/prefill_budget.h"
#include "engine/schedule/prefill_planner.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/schedule/snapshot_keeper.h"
#include "engine/schedule/step_builder.h"
#include "engine/schedule/step_limits.h"
#include "engine/schedule/step_plan.h"
#include "engine/schedule/waiting_queue.h"

namespace monolith {

class Scheduler {
 public:
  Scheduler(PrefixCache& cache, const SchedulerLimits& limits);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Sets the operator's limits, clamped to the allocated sizes. They apply to the next plan and all later plans. If
  // max_sequences is lowered, running sequences continue, and no sequence is admitted until fewer than the new limit
  // are running.
  void configure(int max_batch_tokens, int max_sequences);
  int max_batch_tokens() const { return limits_.max_batch_tokens; }
  int max_sequences() const { return limits_.max_sequences; }
  // Configured maximum of running sequences. max_sequences() is lower if max_batch_tokens is small.
  int wanted_sequences() const { return limits_.wanted_sequences; }
  int batch_tokens_limit() const { return limits_.allocated.max_rows; }  // Upper limit for configure().
  int sequences_limit() const;

  // Adds choice 0 of a request to the queue. The request arrives after all requests added before it.
  void add(ScheduledSequence& sequence) { admission_.add(sequence); }
  // Preempts running sequences that cannot advance now. plan() also does this.
  void preempt_blocked() { admission_.preempt_blocked(); }
  // Plans one step. The plan stays valid until the next call. A plan without items means that nothing can be computed
  // now. In a step with decodes, at most `prompt_tokens_with_decodes` (>= 1) prompt tokens are planned.
  const StepPlan& plan(int prompt_tokens_with_decodes = PrefillBudget::kNoBound);
  // Allocates pages for up to `n_drafts` draft tokens after a planned item that needs logits. Uses only pages that no
  // running sequence needs for its next token. Returns the number of draft tokens for which there are pages.
  int reserve_draft_pages(const StepPlan::Item& item, int n_drafts);
  // Adds up to `n_drafts` draft tokens to a planned item that needs logits. No sequence is preempted for them. Returns
  // the number added.
  int add_drafts(const StepPlan::Item& item, int n_drafts);
  // Call after the step has been submitted: counts its tokens as computed and indexes its full pages in the prefix
  // cache. Draft tokens are not counted.
  void advance();
  // Records an accepted draft token: the sequence's newest token counts as computed.
  void keep_draft(ScheduledSequence& sequence);
  // Starts choice `fork`, sharing all pages of `lead`, which has computed the whole prompt. A fork without a reserved
  // slot is queued, unless a slot is free and nothing waits. May throw std::bad_alloc, in which case the fork holds no
  // resources.
  void fork(ScheduledSequence& lead, ScheduledSequence& fork) { admission_.fork(lead, fork); }
  // Removes a sequence from the queue, or from the running or preempted sequences. Its pages have been released when
  // this returns.
  void remove(ScheduledSequence& sequence) { admission_.remove(sequence); }

  size_t waiting() const { return admission_.waiting().requests() + admission_.waiting_background().requests(); }
  size_t waiting_tokens() const {  // Prompt tokens of the waiting requests.
    return admission_.waiting().prompt_tokens() + admission_.waiting_background().prompt_tokens();
  }
  // True if a sequence that has not started yet is waiting for a slot.
  bool any_waiting() const { return !admission_.waiting().empty() || !admission_.waiting_background().empty(); }
  // Appends the requests of all waiting sequences for which `wanted` returns true. Each request is appended once.
  template <typename Wanted>
  void collect_waiting(Wanted&& wanted, std::vector<Request*>& out) const {
    admission_.waiting().collect(wanted, out);
    admission_.waiting_background().collect(wanted, out);
  }
  const std::vector<ScheduledSequence*>& running() const { return admission_.running(); }
  const std::vector<ScheduledSequence*>& preempted() const { return admission_.preempted(); }
  // True if, for lack of free pages, the last plan did not admit a sequence that was otherwise ready, or preempted one.
  bool lacked_pages() const { return admission_.lacked_pages(); }
  // True if the last plan omitted a sequence because its memory could not be allocated (Request::out_of_memory).
  bool ran_out_of_memory() const { return admission_.ran_out_of_memory(); }
  uint64_t preemptions() const { return admission_.preemptions(); }
  uint64_t cached_tokens() const { return pages_.cached_tokens(); }  // Tokens taken from the prefix cache since start.
  // True if every page reference belongs to a running sequence, and page pool and prefix cache are consistent. Takes
  // O(pages) time.
  bool consistent() const { return consistent({}); }
  // Like consistent() above, but `others` may hold pages too.
  bool consistent(std::vector<const KvState*> others) const;
  // Call after pages have been added to an organization's part of the prefix cache from outside the scheduler, so that
  // waiting sequences are looked up again.
  void note_cached(uint64_t organization) { changes_.add(organization); }

 private:
  void plan_decodes(int bound);

  PrefixCache& cache_;
  StepLimits limits_;
  CacheChanges changes_;
  SnapshotKeeper snapshots_;
  PageMover pages_;
  StepBuilder step_;
  Admission admission_;
  PrefillPlanner prefill_;
};

}  // namespace monolith
