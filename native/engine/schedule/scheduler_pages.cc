// Scheduler: allocation and release of KV pages, and sharing through the prefix cache.
#include <algorithm>

#include "engine/schedule/scheduler.h"

namespace monolith {

bool Scheduler::uses_cache(const Sequence& sequence) const {
  return limits_.prefix_cache && sequence.request.params.use_prefix_cache;
}

// Makes the pages of the next `n_tokens` positions writable: allocates missing pages and copies shared ones. Returns
// false if the sequence was preempted.
bool Scheduler::make_writable(Sequence& sequence, int n_tokens) {
  const auto first = static_cast<size_t>(sequence.kv.n_computed / kPageTokens);
  const auto last = static_cast<size_t>((sequence.kv.n_computed + n_tokens - 1) / kPageTokens);
  for (size_t index = first; index <= last; ++index) {
    if (has_full() && !make_page_writable(sequence, index, false)) return false;
    if (has_windows() && !make_page_writable(sequence, index, true)) return false;
  }
  return true;
}

bool Scheduler::make_page_writable(Sequence& sequence, size_t index, bool in_windows) {
  PageTable& pages = in_windows ? sequence.kv.window_pages : sequence.kv.pages;
  const PagePool& pool = cache_.pool();
  for (;;) {
    const bool shared = index < pages.size();
    if (shared && pool.ref_count(pages[index]) == 1) return true;
    const PageId page = in_windows ? cache_.allocate_window() : cache_.allocate();
    if (page == kNoPage) {
      Sequence& victim = *running_.back();
      preempt(victim);
      if (&victim == &sequence) return false;
      continue;  // Check again: the victim may have been the sequence that shared the page.
    }
    if (shared) {
      const PageId old = pages[index];
      pages.set(index, page, pool);
      for (PageId from = old, to = page; to != kNoPage; from = pool.next(from), to = pool.next(to))
        plan_.copies.push_back({from, to});
      in_windows ? cache_.release_window(old) : cache_.release(old);
    } else {
      pages.push_back(page, pool);
    }
    return true;
  }
}

// Index of the first page that a token at `position` attends to in sliding-window layers.
int Scheduler::first_window_page(int position) const {
  return std::max(0, position - cache_.layout().window + 1) / kPageTokens;
}

PageKeys Scheduler::keys_of(const Sequence& sequence, int index) const {
  return page_keys(sequence.tokens, sequence.request.params.spans, index * kPageTokens, cache_.seed());
}

// Number of leading pages that the sequence can have without computing more: its own, followed by those in the prefix
// cache. For sliding-window layers, the window pages that the next token attends to must still be cached. For recurrent
// state, the pages must end at a snapshot. They never end inside a bidirectional span.
int Scheduler::cached_end(const Sequence& sequence) const {
  const std::span<const InputSpan> spans = sequence.request.params.spans;
  // Without these constraints, the caller finds out itself which pages are cached.
  if (!has_windows() && !has_slots() && spans.empty()) return (sequence.length() - 1) / kPageTokens;
  int end = sequence.kv.n_indexed(), seen_from = sequence.kv.n_out_of_window;
  NodeId node = sequence.kv.last_node();
  for (int index = end; (index + 1) * kPageTokens < sequence.length();) {
    node = cache_.find(sequence.request.params.organization, node, keys_of(sequence, index));
    if (node == kNoNode) break;
    ++index;
    if (has_windows() && cache_.window_of(node) == kNoPage) seen_from = index;
    if (has_slots() && cache_.slots().snapshot_of(node) == kNoSlot) continue;
    if (seen_from <= first_window_page(index * kPageTokens) && !span_across(spans, index * kPageTokens)) end = index;
  }
  return end;
}

// Extends the sequence's pages with cached ones. The last token is always computed, because its logits are needed.
// Returns the number of tokens that need not be computed.
int Scheduler::take_cached_pages(Sequence& sequence) {
  if (!uses_cache(sequence) || sequence.scores() || sequence.kv.n_computed != sequence.kv.n_indexed() * kPageTokens)
    return 0;
  const int before = sequence.kv.n_computed, end = cached_end(sequence),
            first_seen = first_window_page(end * kPageTokens);
  const PagePool& pool = cache_.pool();
  for (int at = sequence.kv.n_indexed(); at < end; ++at) {
    const auto index = static_cast<size_t>(at);
    const NodeId found =
        cache_.find(sequence.request.params.organization, sequence.kv.last_node(), keys_of(sequence, at));
    if (found == kNoNode) break;
    cache_.share(found);
    sequence.kv.nodes.push_back(found);
    if (has_full() && index < sequence.kv.pages.size()) {
      cache_.release(sequence.kv.pages[index]);
      sequence.kv.pages.set(index, cache_.page_of(found), pool);
    } else if (has_full()) {
      sequence.kv.pages.push_back(cache_.page_of(found), pool);
    }
    if (!has_windows()) continue;
    const PageId window = at < first_seen ? kNoPage : cache_.window_of(found);
    if (window != kNoPage) cache_.share_window(window);
    if (index < sequence.kv.window_pages.size()) {
      cache_.release_window(sequence.kv.window_pages[index]);
      sequence.kv.window_pages.set(index, window, pool);
    } else {
      sequence.kv.window_pages.push_back(window, pool);
    }
  }
  sequence.kv.n_computed = sequence.kv.n_indexed() * kPageTokens;
  if (has_slots() && sequence.kv.n_computed > before) {
    if (sequence.kv.slot != kNoSlot) cache_.slots().release(sequence.kv.slot);
    sequence.kv.slot = cache_.slots().snapshot_of(sequence.kv.last_node());
    cache_.slots().share(sequence.kv.slot);
  }
  free_out_of_window_pages(sequence);
  return sequence.kv.n_computed - before;
}

// Takes newly cached pages for a running sequence and extends its window pages.
void Scheduler::resume_from_cache(Sequence& sequence) {
  const int n_taken = take_cached_pages(sequence);
  if (n_taken > 0) ++cache_changes(sequence);
  cached_tokens_ += static_cast<uint64_t>(n_taken);
  extend_window(sequence, static_cast<int64_t>(running_.size()));
  if (writable(sequence) < min_chunk(sequence)) extend_window(sequence, 0);
}

// Releases the window pages before the next token's window. Forks keep their own references. Pages of the output become
// the first to be evicted, because later prompts rarely begin with only a part of an output.
void Scheduler::free_out_of_window_pages(Sequence& sequence) {
  if (!has_windows()) return;
  const int first_seen = first_window_page(sequence.kv.n_computed);
  for (; sequence.kv.n_out_of_window < first_seen; ++sequence.kv.n_out_of_window) {
    const auto index = static_cast<size_t>(sequence.kv.n_out_of_window);
    if (sequence.kv.window_pages[index] == kNoPage) continue;
    cache_.release_window(sequence.kv.window_pages[index],
                          sequence.kv.n_out_of_window * kPageTokens >= sequence.n_prompt);
    sequence.kv.window_pages.set(index, kNoPage, cache_.pool());
  }
}

// End index of the window pages that a prompt may hold now: enough for the window of its next token and one whole step.
int64_t Scheduler::window_end(const Sequence& sequence) const {
  return std::min<int64_t>(pages_for(sequence.length()),
                           first_window_page(sequence.kv.n_computed) +
                               cache_.layout().window_pages(std::max(max_batch_tokens_, min_chunk(sequence))));
}

// Allocates window pages up to window_end(), as long as `reserve` pages stay available.
void Scheduler::extend_window(Sequence& sequence, int64_t reserve) {
  if (!has_windows()) return;
  for (auto n = window_end(sequence) - static_cast<int64_t>(sequence.kv.window_pages.size()); n > 0; --n) {
    if (!cache_.has_room(reserve, 1 + reserve)) return;
    sequence.kv.window_pages.push_back(cache_.allocate_window(), cache_.pool());
  }
}

// Allocates the next window pages of running prompts. If there are none, the youngest running sequence is preempted.
void Scheduler::extend_windows() {
  if (!has_windows()) return;
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.decoding()) continue;
    extend_window(sequence, static_cast<int64_t>(running_.size()));
    while (writable(sequence) < min_chunk(sequence) &&
           make_page_writable(sequence, sequence.kv.window_pages.size(), true))
      continue;
  }
}

// Number of tokens for which a running prompt has pages.
int Scheduler::writable(const Sequence& sequence) const {
  if (!has_windows()) return sequence.remaining();
  return static_cast<int>(sequence.kv.window_pages.size()) * kPageTokens - sequence.kv.n_computed;
}

// Adds the sequence's full pages to the prefix cache. If all nodes are in use, that is tried again after the next step.
void Scheduler::index_pages(Sequence& sequence) {
  if (!uses_cache(sequence)) return;
  KvState& kv = sequence.kv;
  while ((kv.n_indexed() + 1) * kPageTokens <= kv.n_computed) {
    const size_t index = kv.nodes.size();
    const NodeId node = cache_.insert(sequence.request.params.organization, kv.last_node(),
                                      keys_of(sequence, kv.n_indexed()), has_full() ? kv.pages[index] : kNoPage);
    if (node == kNoNode) return;
    if (has_full()) kv.pages.set(index, cache_.page_of(node), cache_.pool());
    // The window page may have been released while no node was free.
    if (has_windows() && kv.window_pages[index] != kNoPage)
      kv.window_pages.set(index, cache_.insert_window(node, kv.window_pages[index]), cache_.pool());
    kv.nodes.push_back(node);
    ++cache_changes(sequence);
  }
}

bool Scheduler::consistent() const {
  std::vector<const KvState*> states;
  std::vector<int32_t> slots(static_cast<size_t>(cache_.slots().size()), 0);
  for (const Sequence* sequence : running_) {
    states.push_back(&sequence->kv);
    if (has_slots() && (sequence->kv.slot == kNoSlot) != (sequence->kv.n_computed == 0)) return false;
    for (const SlotId slot : {sequence->kv.slot, sequence->kv.draft_slot})
      if (slot != kNoSlot) ++slots[static_cast<size_t>(slot)];
  }
  return cache_.consistent(states) && cache_.slots().consistent(slots);
}

}  // namespace monolith
