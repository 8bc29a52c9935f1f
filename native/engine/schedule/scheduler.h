// Decides which tokens each engine step computes and which KV pages hold them. Engine thread only. The scheduler is
// independent of logits, text and the clock.
//
// plan() works in this order of precedence:
// 1. Entitlements. An organization that has work but no running sequence is entitled to a sequence slot immediately. If
//    no slot is free or there are too few pages, sequences of other organizations are preempted: the youngest sequence
//    of the organization with the most slots first. An organization's only sequence is never preempted for this, nor is
//    a sequence that was preempted this way before and has generated fewer than kMinRunTokens tokens since. One
//    entitlement preempts at most kMaxPreempted sequences. Preempted sequences resume like any other.
// 2. First tokens. A prompt that is its organization's only sequence and fits into one step is prefilled in a step
//    without the decodes of other sequences. The prefill then takes no longer than on an idle engine. At least
//    kStepsBetween ordinary steps come between two steps of this kind. The decodes skip no token; each token comes one
//    step later.
// 3. Decodes. Every decoding sequence gets its next token. If the engine has appended several forced tokens to a
//    sequence, they are computed together if the budget allows. Their budget is what remains of max_batch_tokens after
//    one token per decode and a quarter for prefill, but at most half of the caller's prefill bound, which is reduced
//    accordingly. If no page is free, the youngest running sequence is preempted, possibly the one that needs the page.
//    So the oldest sequence always advances, and a running sequence never fails for lack of pages.
// 4. Prefill. Prompt chunks fill the rest of max_batch_tokens, and always get at least a quarter of it: the number of
//    running sequences is limited accordingly. Organizations share this prefill budget evenly, and unused parts go to
//    the others. An organization whose only sequence still waits for its first token has kFirstTokenShares shares,
//    every other organization has one. Within an organization, the oldest prompt gets at least half, and the rest goes
//    to the shortest remaining prompts first. The oldest prompt of all always gets tokens. While sequences decode, the
//    caller's bound (PrefillBudget) applies too.
// 5. Admission. The remaining budget admits sequences: first preempted ones, whose organization has already paid for
//    the slot, then waiting ones in the fair order of WaitingQueue. A sequence is admitted if there are pages for its
//    whole prompt (for sliding-window layers: for one window and one step) plus one page for each running sequence. Its
//    first chunk is computed in the same step. A request with n choices gets up to n slots at once; its other choices
//    wait for their organization's turn one at a time. A sequence for which there was no room is looked up in the prefix
//    cache again only when enough pages are available or its organization's part of the cache has changed.
//
// Prompt log-probabilities: a prompt chunk is limited by the logit rows that remain after one row per sequence that may
// run. Such a prompt takes no pages from the prefix cache, which stores no logits, but adds its pages to it.
//
// Bidirectional spans: a span is always computed in one step, even if it exceeds its prompt's budget. A span that does
// not fit next to the decodes gets a step of its own, like first tokens.
//
// Shared prefixes: if another sequence computes the next page of a prompt in the same step, the prompt waits and takes
// the page from the prefix cache in the next step.
//
// Guarantee: however many requests other organizations have, an organization's first token takes as many steps as on an
// idle engine if its prompt fits into half a step, and at most twice as many otherwise. This requires that some
// organization holds a second slot that it can lose, that at most kMaxEntitlements entitlements arise in one step, and
// that the caller's bound does not limit the prompt chunk.
//
// Sliding-window layers: a page is released while its sequence runs, as soon as the window has moved past it. So a
// sequence holds at most the pages of one window and one step, whatever its length. Released pages stay in the prefix
// cache until they are evicted. A cached prefix is used up to the last position whose whole window is still cached. A
// prompt allocates its window pages as it advances; if there is no page for its next token, the youngest running
// sequence is preempted.
//
// Recurrent state (StateSlots): a sequence reads and writes the same slot, unless the slot has other references; then
// the sequence writes to another slot. There is one more slot than the maximum number of running sequences, so at least
// one sequence can always proceed; a sequence without a slot skips the step. Prefill stores snapshots at multiples of
// the snapshot distance and at the last page boundary before the prompt's end. Decoding keeps one snapshot, at the last
// page boundary at which a step ended. A cached prefix is used only up to a snapshot.
//
// Worst-case delay of a decode without bidirectional spans: a step of first tokens, then a step of
// max(max_batch_tokens, decodes + max_batch_tokens / 4) tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/sequence.h"
#include "engine/schedule/prefill_budget.h"
#include "engine/schedule/waiting_queue.h"

namespace monolith {

struct SchedulerLimits {
  int max_rows;       // Maximum tokens per step. Buffers are allocated for this number.
  int max_sequences;  // Maximum running sequences. Logit rows are allocated for this number.
  bool prefix_cache = true;
  // Maximum logit rows per step, draft tokens included; values below max_sequences count as max_sequences.
  int max_logit_rows = 0;
  // Recurrent state: distance in tokens between a prompt's snapshots, rounded up to whole pages.
  int snapshot_tokens = 1024;
};

// The work of one engine step: decoding sequences, oldest first, then prompts.
struct StepPlan {
  struct Item {
    Sequence* sequence;
    int n_tokens;
    bool is_last;                       // True if the step computes the sequence's last token.
    bool wants_logits;                  // True if the logits of the item's last token are needed.
    int n_drafts = 0;                   // Draft tokens computed after the item's tokens; the logits of each are needed.
    int first_chunk = 0, n_chunks = 0;  // Range in `chunks`; empty for models without recurrent state.
    // Number of consecutive prompt tokens whose logits give the log-probability of the following token.
    int n_scored = 0;
    int first_scored = 0;  // Index of the first of the `n_scored` tokens within the item.
    // The sequence finishes with this step without generating a token.
    bool ends() const { return is_last && !wants_logits; }
    int logit_rows() const { return n_scored + (wants_logits ? 1 + n_drafts : 0); }
  };
  struct PageCopy {
    PageId from, to;
  };
  // A run of an item's tokens, and the recurrent-state slots that it reads and writes. A run ends where a snapshot is
  // stored.
  struct Chunk {
    int n_tokens;
    SlotId from, to;
  };
  std::vector<Item> items;
  std::vector<PageCopy> copies;  // Page copies to make before the step, in this order.
  std::vector<Chunk> chunks;
  int n_rows = 0;
  int n_decodes = 0;          // Number of decoding sequences in the step.
  int n_ahead = 0;            // Tokens of decoding items beyond one per item.
  int n_drafts = 0;           // Number of draft tokens in the step.
  bool first_tokens = false;  // True for a step of first tokens: all other running sequences are left out.

  std::span<const Chunk> chunks_of(const Item& item) const {
    return std::span(chunks).subspan(static_cast<size_t>(item.first_chunk), static_cast<size_t>(item.n_chunks));
  }
};

class Scheduler {
 public:
  // Minimum number of tokens that a sequence generates between two preemptions for other organizations.
  static constexpr int kMinRunTokens = 64;
  static constexpr int kMaxPreempted = 4;     // Maximum sequences preempted for one entitlement.
  static constexpr int kMaxEntitlements = 8;  // Maximum entitlements served per step.
  static constexpr int kStepsBetween = 3;     // Minimum number of ordinary steps between two steps of first tokens.
  // Shares of the prefill budget for an organization that waits for its first token.
  static constexpr int kFirstTokenShares = 3;

  Scheduler(PrefixCache& cache, const SchedulerLimits& limits);

  // Sets the operator's limits from the next plan on, clamped to the allocated sizes. If max_sequences is lowered,
  // running sequences continue, and none is admitted until their number is below the new limit.
  void configure(int max_batch_tokens, int max_sequences);
  int max_batch_tokens() const { return max_batch_tokens_; }
  int max_sequences() const { return max_sequences_; }
  // Configured maximum of running sequences. max_sequences() is lower if max_batch_tokens is small.
  int wanted_sequences() const { return wanted_sequences_; }
  int batch_tokens_limit() const { return limits_.max_rows; }  // Upper limit for max_batch_tokens in configure().
  int sequences_limit() const;

  void add(Request& request);
  // Preempts running sequences that cannot advance now. plan() does this, too.
  void preempt_blocked();
  // Plans one step. The plan stays valid until the next call. A plan without items means that nothing can be computed
  // now. In a step with decodes, at most `prompt_tokens_with_decodes` (>= 1) prompt tokens are planned.
  const StepPlan& plan(int prompt_tokens_with_decodes = PrefillBudget::kNoBound);
  // Allocates pages for up to `n_drafts` draft tokens after a planned item that needs logits. Uses only pages that no
  // running sequence needs next. Returns the number of draft tokens for which there are pages.
  int reserve_draft_pages(const StepPlan::Item& item, int n_drafts);
  // Adds up to `n_drafts` draft tokens to a planned item that needs logits. No sequence is preempted for them. Returns
  // the number added.
  int add_drafts(const StepPlan::Item& item, int n_drafts);
  // Call after the step was submitted: counts its tokens as computed and indexes its full pages in the prefix cache.
  // Draft tokens are not counted.
  void advance();
  // Records an accepted draft token: the sequence's newest token counts as computed.
  void keep_draft(Sequence& sequence);
  // Starts choice `fork`, sharing all pages of `lead`, which has computed the whole prompt. A fork without a reserved
  // slot is queued, unless a slot is free and nothing waits. Throws std::bad_alloc; the fork then holds nothing.
  void fork(Sequence& lead, Sequence& fork);
  // Removes a sequence from the queue or from the running or preempted ones. Its pages are released on return.
  void remove(Sequence& sequence);

  size_t waiting() const { return waiting_.requests(); }
  size_t waiting_tokens() const { return waiting_.prompt_tokens(); }  // Prompt tokens of the waiting requests.
  const WaitingQueue& waiting_queue() const { return waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& preempted() const { return preempted_; }
  // True if the last plan left out a sequence whose memory could not be allocated (Request::out_of_memory).
  bool ran_out_of_memory() const { return ran_out_of_memory_; }
  uint64_t preemptions() const { return preemptions_; }
  uint64_t cached_tokens() const { return cached_tokens_; }  // Tokens taken from the prefix cache since start.
  // True if every page reference belongs to a running sequence, and page pool and prefix cache agree. O(pages).
  bool consistent() const;

 private:
  // Number of sequence slots that one organization holds, that is, of its running sequences.
  struct Holder {
    uint64_t organization;
    int places;
  };
  // One organization's range in `prompts_` and its part of the prefill budget.
  struct PromptGroup {
    size_t begin, end;
    uint64_t oldest;  // order() of the group's oldest sequence.
    int64_t demand;   // Remaining prompt tokens of the group.
    int shares;
  };

  void count_slots();
  int slots_of(uint64_t organization) const;
  void add_slots(uint64_t organization, int places);
  void serve_entitlements();
  bool serve_one_entitlement();
  bool plan_first_tokens(int budget);
  bool is_only_one(const Sequence& sequence) const;
  Admission try_entitle(Sequence& sequence);
  bool preempt_for(const Sequence& sequence);
  Sequence* choose_victim() const;
  void plan_decodes(int bound);
  void plan_prompts(int budget);
  void group_prompts();
  int split_budget(int budget, bool may_admit);
  void count_reserved_slots();
  int least_prompt_share() const { return std::max(1, max_batch_tokens_ / 4); }
  int free_slots() const { return max_sequences_ - static_cast<int>(running_.size()) - reserved_slots_; }
  bool make_writable(Sequence& sequence, int n_tokens);
  bool make_page_writable(Sequence& sequence, size_t index, bool in_windows);
  void preempt(Sequence& sequence);
  bool may_admit() const;
  Sequence* admit_one();
  bool allocate(Sequence& sequence);
  Admission try_admit(Sequence& sequence);
  bool still_lacks_room(const Sequence& sequence) const;
  uint64_t& cache_changes(const Sequence& sequence) {
    return cache_changes_[sequence.request.params.organization % cache_changes_.size()];
  }
  int take_cached_pages(Sequence& sequence);
  PageKeys keys_of(const Sequence& sequence, int index) const;
  bool next_page_is_being_computed(const Sequence& sequence) const;
  bool uses_cache(const Sequence& sequence) const;
  bool has_full() const { return cache_.layout().full > 0; }
  bool has_windows() const { return cache_.layout().windowed > 0; }
  bool has_slots() const { return cache_.slots().any(); }
  int first_window_page(int position) const;
  int cached_end(const Sequence& sequence) const;
  void resume_from_cache(Sequence& sequence);
  int64_t window_end(const Sequence& sequence) const;
  void extend_window(Sequence& sequence, int64_t reserve);
  void extend_windows();
  int writable(const Sequence& sequence) const;
  void free_out_of_window_pages(Sequence& sequence);
  int schedule_tokens(Sequence& sequence, int n_tokens);
  bool plan_item(Sequence& sequence, int n_tokens);
  bool plan_chunks(Sequence& sequence, StepPlan::Item& item);
  int next_snapshot(const Sequence& sequence, int after) const;
  void settle_chunks(const StepPlan::Item& item);
  void keep_snapshot(Sequence& sequence, int position, SlotId slot);
  void keep_answer_snapshot(Sequence& sequence);
  void drop_draft_slots();
  void release_slots(Sequence& sequence);
  int whole_spans(const Sequence& sequence, int n_tokens, int most) const;
  int scorable(const Sequence& sequence, int n_tokens) const;
  static int scored_rows(const Sequence& sequence, int n_tokens);
  static int rows_for_scores(const Sequence& sequence, int n_tokens);
  int min_chunk(const Sequence& sequence) const;
  bool plan_long_span();
  void index_pages(Sequence& sequence);

  PrefixCache& cache_;
  const SchedulerLimits limits_;
  const int snapshot_distance_;  // Distance between snapshots in tokens, a multiple of the page size.
  int max_batch_tokens_, max_sequences_;
  int wanted_sequences_;  // Configured maximum of running sequences; max_sequences_ may be lower.
  WaitingQueue waiting_;
  std::vector<Sequence*> running_;    // Running sequences, oldest first.
  std::vector<Sequence*> preempted_;  // Preempted sequences, oldest first.
  // Scratch of plan_prompts(). Grouped by organization; within a group the oldest prompt first, then the shortest ones.
  std::vector<Sequence*> prompts_;
  std::vector<PromptGroup> groups_;  // Scratch of plan_prompts().
  std::vector<Holder> holders_;  // Sorted by organization. Valid while entitlements are served and prompts are planned.
  std::vector<Sequence*> victims_;  // Scratch of preempt_for().
  StepPlan plan_;
  // Tokens for which the step being planned still has room. Only bidirectional spans may exceed their budget up to this
  // number.
  int rows_left_ = 0;
  int score_rows_left_ = 0;  // Logit rows left in the step being planned, after one row for each sequence that may run.
  int reserved_slots_ = 0;   // Sum of the slots that running requests have reserved for their other choices.
  int steps_since_first_tokens_ = kStepsBetween;
  // True if a sequence was preempted in this step. Nothing is admitted then, because sequences would preempt each other
  // in turn.
  bool preempted_now_ = false;
  bool ran_out_of_memory_ = false;
  // Number of changes that may give a waiting sequence more pages from the prefix cache: pages or snapshots added to the
  // cache, and cached pages taken by other sequences. Organizations share entries, which only causes extra lookups.
  std::array<uint64_t, 64> cache_changes_{};
  uint64_t next_arrival_ = 0;
  uint64_t preemptions_ = 0, cached_tokens_ = 0;
};

}  // namespace monolith
