// Allocates, shares, copies, indexes and releases the pages and window pages of one sequence at a time. It never
// preempts. If there are too few pages, the functions report failure. Engine thread only.
//
// Sliding-window layers: a page is released while its sequence runs, as soon as the window has moved past it. A
// sequence therefore holds at most the pages of one window and one step, regardless of its length. Released pages stay
// in the prefix cache until they are evicted. A cached prefix is used up to the last position whose whole window is
// still cached. A prompt allocates its window pages as it advances.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/cache_changes.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/schedule/snapshot_keeper.h"
#include "engine/schedule/step_limits.h"
#include "engine/schedule/step_plan.h"

namespace monolith {

// Numbers of page groups: for layers without a sliding window and for layers with one.
struct PageDemand {
  int64_t full, windows;
};

class PageMover {
 public:
  PageMover(PrefixCache& cache, SnapshotKeeper& snapshots, CacheChanges& changes, const StepLimits& limits)
      : cache_(cache), snapshots_(snapshots), changes_(changes), limits_(limits) {}

  // True if another of `prompts` computes the next page of the sequence in the step being planned.
  bool next_page_is_being_computed(const ScheduledSequence& sequence,
                                   std::span<ScheduledSequence* const> prompts) const;
  // Extends the sequence's pages with cached pages. The last token is always computed, because its logits are needed.
  // Returns the number of tokens that need not be computed.
  int take_cached_pages(ScheduledSequence& sequence);
  // Adds tokens that take_cached_pages() has found to the statistics. Called once it is certain that the sequence keeps
  // their pages.
  void count_cached(const ScheduledSequence& sequence, int n_tokens);
  // Takes newly cached pages for a running sequence and extends its window pages. `n_running`: number of running
  // sequences; one page is kept available for each of them.
  void resume_from_cache(ScheduledSequence& sequence, int64_t n_running);

  // Returns the number of additional pages that the sequence needs: pages for all its tokens and, in layers with a
  // sliding window, pages for the window of the next token and for one whole step.
  PageDemand missing_pages(const ScheduledSequence& sequence) const;
  // Allocates pages for all tokens, and as many window pages as possible while leaving `reserve` pages available. The
  // caller must have checked that there are enough pages for all tokens.
  void allocate_pages(ScheduledSequence& sequence, int64_t reserve);
  // Allocates window pages for the next step of a prompt, as long as `reserve` pages remain available.
  void extend_window(ScheduledSequence& sequence, int64_t reserve);
  // Allocates one more window page of a prompt. Returns false if none is available.
  bool add_window_page(ScheduledSequence& sequence);
  // Makes the pages of the next `n_tokens` positions writable: allocates missing pages and copies shared pages. Returns
  // false if no page is available; the call can then be repeated.
  bool make_writable(ScheduledSequence& sequence, int n_tokens, std::vector<StepPlan::PageCopy>& copies);
  // Allocates pages up to position `end` + `n_drafts`, as long as one page stays available for each running sequence.
  // Returns the number of draft tokens that have pages.
  int reserve_draft_pages(ScheduledSequence& sequence, int end, int n_drafts, int64_t n_running);

  // Number of tokens for which a running prompt has pages.
  int writable(const ScheduledSequence& sequence) const;
  // The number of pages in the pool that would become available if the sequence released its pages.
  int64_t exclusive_pages(const KvState& kv) const;

  // Adds the sequence's full pages to the prefix cache. If all nodes are in use, this is retried after the next step.
  void index_pages(ScheduledSequence& sequence);
  // Releases the window pages before the next token's window. Forks keep their own references.
  void free_out_of_window_pages(ScheduledSequence& sequence);
  // Adds references for the fork to all pages, nodes and slots of `lead`.
  void share(const KvState& lead, KvState& fork);
  // Releases all pages, nodes and slots.
  void release(KvState& kv);

  uint64_t cached_tokens() const { return cached_tokens_; }  // Tokens taken from the prefix cache since start.

 private:
  bool has_full() const { return cache_.layout().full > 0; }
  bool has_windows() const { return cache_.layout().windowed > 0; }
  PageKeys keys_of(const ScheduledSequence& sequence, int index) const;
  int first_window_page(int position) const;
  int cached_end(const ScheduledSequence& sequence) const;
  int64_t window_end(const ScheduledSequence& sequence) const;
  bool make_page_writable(PageTable& pages, size_t index, std::vector<StepPlan::PageCopy>& copies, bool in_windows);
  void replace(PageTable& pages, size_t index, PageId page);

  PrefixCache& cache_;
  SnapshotKeeper& snapshots_;
  CacheChanges& changes_;
  const StepLimits& limits_;
  uint64_t cached_tokens_ = 0;
};

}  // namespace monolith
