#include "engine/schedule/page_mover.h"

#include <algorithm>

namespace monolith {

PageKeys PageMover::keys_of(const ScheduledSequence& sequence, int index) const {
  return page_keys(sequence.tokens, sequence.spans, index * kPageTokens, cache_.seed(), sequence.adapter_hash);
}

bool PageMover::next_page_is_being_computed(const ScheduledSequence& sequence,
                                            std::span<ScheduledSequence* const> prompts) const {
  const int begin = sequence.kv.n_computed;
  if (!sequence.uses_cache || sequence.scores() || begin != sequence.kv.n_indexed() * kPageTokens) return false;
  if (begin + kPageTokens >= sequence.length()) return false;
  const size_t index = sequence.kv.nodes.size();
  for (const ScheduledSequence* other : prompts) {
    if (other == &sequence || other->kv.n_planned == 0 || !other->uses_cache) continue;
    if (other->kv.n_computed >= begin + kPageTokens) continue;
    if (other->kv.n_computed + other->kv.n_planned < begin + kPageTokens) continue;
    if (other->organization != sequence.organization) continue;
    // If both sequences have the same node directly before this page, their prefixes up to the page are equal, because
    // the cache has one node per prefix.
    if (index > 0 && (other->kv.nodes.size() < index || other->kv.nodes[index - 1] != sequence.kv.nodes[index - 1]))
      continue;
    if (keys_of(*other, sequence.kv.n_indexed()) == keys_of(sequence, sequence.kv.n_indexed())) return true;
  }
  return false;
}

// Index of the first page that a token at `position` attends to in sliding-window layers.
int PageMover::first_window_page(int position) const {
  return std::max(0, position - cache_.layout().window + 1) / kPageTokens;
}

// Number of leading pages that the sequence can use without further computation: its own pages, then pages in the
// prefix cache. For sliding-window layers, the window pages that the next token attends to must still be cached. For
// recurrent state, the pages must end at a snapshot. They never end inside a bidirectional span.
int PageMover::cached_end(const ScheduledSequence& sequence) const {
  const std::span<const InputSpan> spans = sequence.spans;
  // For models without these constraints, the returned value is only an upper bound: the caller determines which pages
  // are cached.
  if (!has_windows() && !snapshots_.any() && spans.empty()) return (sequence.length() - 1) / kPageTokens;
  int end = sequence.kv.n_indexed(), seen_from = sequence.kv.n_out_of_window;
  NodeId node = sequence.kv.last_node();
  for (int index = end; (index + 1) * kPageTokens < sequence.length();) {
    node = cache_.find(sequence.organization, node, keys_of(sequence, index));
    if (node == kNoNode) break;
    ++index;
    if (has_windows() && cache_.window_of(node) == kNoPage) seen_from = index;
    if (snapshots_.any() && cache_.slots().snapshot_of(node) == kNoSlot) continue;
    if (seen_from <= first_window_page(index * kPageTokens) && !span_across(spans, index * kPageTokens)) end = index;
  }
  return end;
}

int PageMover::take_cached_pages(ScheduledSequence& sequence) {
  KvState& kv = sequence.kv;
  if (!sequence.uses_cache || sequence.scores() || kv.n_computed != kv.n_indexed() * kPageTokens) return 0;
  const int before = kv.n_computed, end = cached_end(sequence), first_seen = first_window_page(end * kPageTokens);
  for (int at = kv.n_indexed(); at < end; ++at) {
    const auto index = static_cast<size_t>(at);
    const NodeId found = cache_.find(sequence.organization, kv.last_node(), keys_of(sequence, at));
    if (found == kNoNode) break;
    cache_.share(found);
    kv.nodes.push_back(found);
    if (has_full()) {
      if (index < kv.pages.size()) cache_.release(kv.pages[index]);
      replace(kv.pages, index, cache_.page_of(found));
    }
    if (!has_windows()) continue;
    const PageId window = at < first_seen ? kNoPage : cache_.window_of(found);
    if (window != kNoPage) cache_.share_window(window);
    if (index < kv.window_pages.size()) cache_.release_window(kv.window_pages[index]);
    replace(kv.window_pages, index, window);
  }
  kv.n_computed = kv.n_indexed() * kPageTokens;
  if (kv.n_computed > before) snapshots_.resume(kv);
  free_out_of_window_pages(sequence);
  return kv.n_computed - before;
}

// Sets an entry of the table, or appends it.
void PageMover::replace(PageTable& pages, size_t index, PageId page) {
  if (index < pages.size())
    pages.set(index, page, cache_.pool());
  else
    pages.push_back(page, cache_.pool());
}

void PageMover::count_cached(const ScheduledSequence& sequence, int n_tokens) {
  if (n_tokens > 0) changes_.add(sequence.organization);
  cached_tokens_ += static_cast<uint64_t>(n_tokens);
}

void PageMover::resume_from_cache(ScheduledSequence& sequence, int64_t n_running) {
  count_cached(sequence, take_cached_pages(sequence));
  extend_window(sequence, n_running);
  if (writable(sequence) < sequence.min_chunk()) extend_window(sequence, 0);
}

PageDemand PageMover::missing_pages(const ScheduledSequence& sequence) const {
  const KvState& kv = sequence.kv;
  return {has_full() ? pages_for(sequence.length()) - static_cast<int64_t>(kv.pages.size()) : 0,
          window_end(sequence) - static_cast<int64_t>(kv.window_pages.size())};
}

void PageMover::allocate_pages(ScheduledSequence& sequence, int64_t reserve) {
  for (int64_t n = missing_pages(sequence).full; n > 0; --n)
    sequence.kv.pages.push_back(cache_.allocate(), cache_.pool());
  extend_window(sequence, reserve);
}

// Returns the end index of the window pages that a prompt may hold now: enough pages for the window of its next token
// and for one whole step.
int64_t PageMover::window_end(const ScheduledSequence& sequence) const {
  return std::min<int64_t>(pages_for(sequence.length()),
                           first_window_page(sequence.kv.n_computed) +
                               cache_.layout().window_pages(std::max(limits_.max_batch_tokens, sequence.min_chunk())));
}

void PageMover::extend_window(ScheduledSequence& sequence, int64_t reserve) {
  if (!has_windows()) return;
  PageTable& pages = sequence.kv.window_pages;
  for (int64_t n = window_end(sequence) - static_cast<int64_t>(pages.size()); n > 0; --n) {
    if (!cache_.has_room(reserve, 1 + reserve)) return;
    pages.push_back(cache_.allocate_window(), cache_.pool());
  }
}

bool PageMover::add_window_page(ScheduledSequence& sequence) {
  const PageId page = cache_.allocate_window();
  if (page == kNoPage) return false;
  sequence.kv.window_pages.push_back(page, cache_.pool());
  return true;
}

bool PageMover::make_writable(ScheduledSequence& sequence, int n_tokens, std::vector<StepPlan::PageCopy>& copies) {
  KvState& kv = sequence.kv;
  const auto first = static_cast<size_t>(kv.n_computed / kPageTokens);
  const auto last = static_cast<size_t>((kv.n_computed + n_tokens - 1) / kPageTokens);
  for (size_t index = first; index <= last; ++index) {
    if (has_full() && !make_page_writable(kv.pages, index, copies, false)) return false;
    if (has_windows() && !make_page_writable(kv.window_pages, index, copies, true)) return false;
  }
  return true;
}

bool PageMover::make_page_writable(PageTable& pages, size_t index, std::vector<StepPlan::PageCopy>& copies,
                                   bool in_windows) {
  const PagePool& pool = cache_.pool();
  const bool shared = index < pages.size();
  if (shared && pool.ref_count(pages[index]) == 1) return true;
  const PageId page = in_windows ? cache_.allocate_window() : cache_.allocate();
  if (page == kNoPage) return false;
  if (shared) {
    const PageId old = pages[index];
    for (PageId from = old, to = page; to != kNoPage; from = pool.next(from), to = pool.next(to))
      copies.push_back({from, to});
    in_windows ? cache_.release_window(old) : cache_.release(old);
  }
  replace(pages, index, page);
  return true;
}

int PageMover::reserve_draft_pages(ScheduledSequence& sequence, int end, int n_drafts, int64_t n_running) {
  KvState& kv = sequence.kv;
  const auto held = [&] {
    const size_t n_full = has_full() ? kv.pages.size() : SIZE_MAX;
    return static_cast<int>(has_windows() ? std::min(n_full, kv.window_pages.size()) : n_full);
  };
  while (held() < pages_for(end + n_drafts)) {
    if (!cache_.has_room(1 + n_running, 1 + n_running)) return held() * kPageTokens - end;
    const auto n_held = static_cast<size_t>(held());
    if (has_full() && kv.pages.size() == n_held) kv.pages.push_back(cache_.allocate(), cache_.pool());
    if (has_windows() && kv.window_pages.size() == n_held)
      kv.window_pages.push_back(cache_.allocate_window(), cache_.pool());
  }
  return n_drafts;
}

int PageMover::writable(const ScheduledSequence& sequence) const {
  if (!has_windows()) return sequence.remaining();
  return static_cast<int>(sequence.kv.window_pages.size()) * kPageTokens - sequence.kv.n_computed;
}

int64_t PageMover::exclusive_pages(const KvState& kv) const {
  const auto is_own = [this](PageId page) { return page != kNoPage && cache_.pool().ref_count(page) == 1; };
  const auto not_indexed = std::span(kv.pages).subspan(std::min(kv.nodes.size(), kv.pages.size()));
  const auto n_full = std::ranges::count_if(kv.nodes, [this](NodeId node) { return cache_.ref_count(node) == 1; }) +
                      std::ranges::count_if(not_indexed, is_own);
  return cache_.layout().full * n_full + cache_.layout().windowed * std::ranges::count_if(kv.window_pages, is_own);
}

void PageMover::index_pages(ScheduledSequence& sequence) {
  if (!sequence.uses_cache) return;
  KvState& kv = sequence.kv;
  const uint64_t organization = sequence.organization;
  while ((kv.n_indexed() + 1) * kPageTokens <= kv.n_computed) {
    const size_t index = kv.nodes.size();
    const NodeId node = cache_.insert(organization, kv.last_node(), keys_of(sequence, kv.n_indexed()),
                                      has_full() ? kv.pages[index] : kNoPage);
    if (node == kNoNode) return;
    if (has_full()) kv.pages.set(index, cache_.page_of(node), cache_.pool());
    // The window page may have been released while no node was free.
    if (has_windows() && kv.window_pages[index] != kNoPage)
      kv.window_pages.set(index, cache_.insert_window(node, kv.window_pages[index]), cache_.pool());
    kv.nodes.push_back(node);
    changes_.add(organization);
  }
}

// Pages of the output become the first to be evicted, because later prompts rarely begin with only a part of an output.
void PageMover::free_out_of_window_pages(ScheduledSequence& sequence) {
  if (!has_windows()) return;
  KvState& kv = sequence.kv;
  const int first_seen = first_window_page(kv.n_computed);
  for (; kv.n_out_of_window < first_seen; ++kv.n_out_of_window) {
    const auto index = static_cast<size_t>(kv.n_out_of_window);
    if (kv.window_pages[index] == kNoPage) continue;
    cache_.release_window(kv.window_pages[index], kv.n_out_of_window * kPageTokens >= sequence.n_prompt);
    kv.window_pages.set(index, kNoPage, cache_.pool());
  }
}

void PageMover::share(const KvState& lead, KvState& fork) {
  fork.nodes = lead.nodes;
  fork.pages = lead.pages;
  fork.window_pages = lead.window_pages;
  for (const NodeId node : fork.nodes) cache_.share(node);
  for (size_t i = fork.nodes.size(); i < fork.pages.size(); ++i) cache_.share(fork.pages[i]);
  for (const PageId page : fork.window_pages)
    if (page != kNoPage) cache_.share_window(page);
  snapshots_.share(lead, fork);
  fork.n_computed = lead.n_computed;
  fork.n_out_of_window = lead.n_out_of_window;
}

void PageMover::release(KvState& kv) {
  cache_.release_all(kv);
  snapshots_.release(kv);
}

}  // namespace monolith
