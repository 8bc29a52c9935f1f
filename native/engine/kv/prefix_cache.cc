#include "engine/kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace monolith {
namespace {

constexpr int64_t kMaxNames = 1 << 20;

// One round of multiply and xor-shift. The constant is 2^64 divided by the golden ratio, rounded to an odd number.
uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 29);
}

}  // namespace

PrefixCache::PrefixCache(int64_t n_pages, uint64_t seed, uint64_t hash_mask, const KvLayout& layout, int64_t n_names,
                         int n_slots)
    : layout_(layout),
      pool_(n_pages),
      node_ids_(layout.full > 0 ? 0 : n_names),
      buckets_(std::bit_ceil(static_cast<size_t>(node_pool().size()) * 2), kNoPage),
      lru_(node_pool().size()),
      window_lru_(layout.windowed > 0 ? n_pages : 0),
      slots_(n_slots, node_pool().size()),
      seed_(seed),
      hash_mask_(hash_mask) {
  nodes_.reserve(static_cast<size_t>(node_pool().size()));
  keys_.reserve(static_cast<size_t>(node_pool().size()));
  if (layout.windowed > 0) owners_.reserve(static_cast<size_t>(n_pages));
}

// Called after allocate(): adds bookkeeping entries for pages that were allocated for the first time.
void PrefixCache::reach_touched() {
  const auto nodes = static_cast<size_t>(n_nodes());
  if (nodes_.size() < nodes) {
    nodes_.resize(nodes);
    keys_.resize(nodes);
  }
  if (layout_.windowed > 0 && owners_.size() < static_cast<size_t>(pool_.touched()))
    owners_.resize(static_cast<size_t>(pool_.touched()), kNoPage);
}

// One full context of node ids for each window of pages that the pool can hold, at most kMaxNames ids.
int64_t PrefixCache::names_for(const KvLayout& layout, int64_t n_pages, int max_context) {
  if (layout.full > 0) return 0;
  const int64_t of_context = (int64_t{max_context} + kPageTokens - 1) / kPageTokens;
  const int64_t windows = n_pages / (layout.windowed * std::min(of_context, layout.window_pages(1))) + 1;
  return std::max(of_context, std::min(of_context * windows, kMaxNames));
}

uint64_t PrefixCache::hash(uint64_t organization, PageId parent, const PageKeys& keys) const {
  uint64_t state = parent == kNoPage ? mix(seed_, organization) : node(parent).hash;
  for (const PositionKey key : keys) state = mix(state, key);
  return mix(state, seed_) & hash_mask_;
}

PageId PrefixCache::find_hashed(uint64_t hash, uint64_t organization, PageId parent, const PageKeys& keys) const {
  for (PageId page = buckets_[bucket(hash)]; page != kNoPage; page = node(page).next_in_bucket) {
    const Node& candidate = node(page);
    if (candidate.hash == hash && candidate.parent == parent && candidate.organization == organization &&
        keys_[static_cast<size_t>(page)] == keys) {
      return page;
    }
  }
  return kNoPage;
}

PageId PrefixCache::find(uint64_t organization, PageId parent, const PageKeys& keys) const {
  ++n_lookups_;
  return find_hashed(hash(organization, parent, keys), organization, parent, keys);
}

PageId PrefixCache::insert(uint64_t organization, PageId parent, const PageKeys& keys, PageId page) {
  assert(ref_count(page) > 0);
  assert(parent == kNoPage || (node_pool().indexed(parent) && ref_count(parent) > 0));
  const uint64_t hashed = hash(organization, parent, keys);
  const PageId existing = find_hashed(hashed, organization, parent, keys);
  if (existing == page) return page;
  if (existing != kNoPage) {
    share(existing);
    release(page);
    return existing;
  }
  node_pool().set_indexed(page);
  Node& added = node(page);
  added.hash = hashed;
  added.organization = organization;
  added.parent = parent;
  added.window = kNoPage;
  added.n_children = 0;
  added.next_in_bucket = buckets_[bucket(hashed)];
  buckets_[bucket(hashed)] = page;
  if (parent != kNoPage) ++node(parent).n_children;
  keys_[static_cast<size_t>(page)] = keys;
  return page;
}

PageId PrefixCache::insert_window(PageId page, PageId window) {
  assert(node_pool().indexed(page) && ref_count(page) > 0 && pool_.ref_count(window) > 0);
  const PageId existing = node(page).window;
  if (existing == window) return window;
  if (existing != kNoPage) {
    share_window(existing);
    release_window(window);
    return existing;
  }
  pool_.set_indexed(window);
  node(page).window = window;
  owners_[static_cast<size_t>(window)] = page;
  return window;
}

bool PrefixCache::has_room(int64_t n, int64_t n_window) const {
  if (layout_.full == 0 && n > node_ids_.free() + node_ids_.cached()) return false;
  return layout_.full * n + layout_.windowed * n_window <= available();
}

PageId PrefixCache::allocate() {
  if (layout_.full > 0 && !make_free(layout_.full)) return kNoPage;
  if (layout_.full == 0 && node_ids_.free() == 0) {
    if (lru_.oldest() == kNoPage) return kNoPage;
    evict(lru_.oldest());
  }
  const PageId page = layout_.full > 0 ? pool_.allocate(layout_.full) : node_ids_.allocate();
  reach_touched();
  return page;
}

PageId PrefixCache::allocate_window() {
  if (!make_free(layout_.windowed)) return kNoPage;
  const PageId page = pool_.allocate(layout_.windowed);
  reach_touched();
  return page;
}

void PrefixCache::share(PageId page) {
  if (ref_count(page) == 0) lru_.remove(page);
  node_pool().share(page);
}

void PrefixCache::release(PageId page) {
  if (node_pool().release(page) == 0 && node_pool().indexed(page)) lru_.append(page, ++now_);
}

void PrefixCache::share_window(PageId page) {
  if (pool_.ref_count(page) == 0) window_lru_.remove(page);
  pool_.share(page);
}

void PrefixCache::release_window(PageId page, bool first_to_leave) {
  if (pool_.release(page) > 0 || !pool_.indexed(page)) return;
  if (first_to_leave)
    window_lru_.prepend(page);
  else
    window_lru_.append(page, ++now_);
}

void PrefixCache::release_all(PageTable& pages, PageTable& window_pages) {
  for (size_t i = pages.size(); i-- > 0;) {
    if (i < window_pages.size() && window_pages[i] != kNoPage) release_window(window_pages[i]);
    release(pages[i]);
  }
  pages.clear();
  window_pages.clear();
}

// Evicts cached pages until `n_pages` are free. Evicts nothing and returns false if that is impossible.
bool PrefixCache::make_free(int n_pages) {
  if (available() < n_pages) return false;
  while (pool_.free() < n_pages) {
    const PageId page = layout_.full > 0 ? lru_.oldest() : kNoPage, window = window_lru_.oldest();
    assert(page != kNoPage || window != kNoPage);
    if (page == kNoPage || (window != kNoPage && window_lru_.last_used(window) < lru_.last_used(page)))
      evict_window(window);
    else
      evict(page);
  }
  return true;
}

void PrefixCache::evict(PageId page) {
  // The oldest page in the LRU list is always a leaf; see the top of prefix_cache.h.
  assert(node(page).n_children == 0);
  if (node(page).window != kNoPage) evict_window(node(page).window);
  slots_.drop(page);
  lru_.remove(page);
  PageId* link = &buckets_[bucket(node(page).hash)];
  while (*link != page) {
    assert(*link != kNoPage);
    link = &node(*link).next_in_bucket;
  }
  *link = node(page).next_in_bucket;
  if (node(page).parent != kNoPage) --node(node(page).parent).n_children;
  node_pool().evict(page);
}

void PrefixCache::evict_window(PageId page) {
  window_lru_.remove(page);
  node(owners_[static_cast<size_t>(page)]).window = kNoPage;
  owners_[static_cast<size_t>(page)] = kNoPage;
  pool_.evict(page);
}

bool PrefixCache::consistent() const {
  const PagePool& pool = node_pool();
  if (!pool_.consistent() || !node_ids_.consistent()) return false;
  std::vector<int32_t> children(static_cast<size_t>(n_nodes()), 0);
  int64_t n_indexed = 0, n_hashed = 0, n_unused = 0, n_windows = 0, n_unused_windows = 0;
  const auto is_node = [&](PageId page) {
    return pool.indexed(page) && (layout_.full == 0 || !is_indexed_window(page));
  };
  for (PageId page = 0; page < n_nodes(); ++page) {
    if (!is_node(page)) continue;
    ++n_indexed;
    n_unused += pool.ref_count(page) == 0;
    if (const PageId window = node(page).window; window != kNoPage) {
      ++n_windows;
      n_unused_windows += pool_.ref_count(window) == 0;
      if (!pool_.indexed(window) || owners_[static_cast<size_t>(window)] != page) return false;
      if (pool_.ref_count(window) > 0 && pool.ref_count(page) == 0) return false;
    }
    const PageId parent = node(page).parent;
    if (parent == kNoPage) continue;
    if (!is_node(parent) || node(parent).organization != node(page).organization) return false;
    if (pool.ref_count(page) > 0 && pool.ref_count(parent) == 0) return false;
    ++children[static_cast<size_t>(parent)];
  }
  for (PageId page = 0; page < n_nodes(); ++page)
    if (is_node(page) && node(page).n_children != children[static_cast<size_t>(page)]) return false;
  for (size_t at = 0; at < buckets_.size(); ++at) {
    for (PageId page = buckets_[at]; page != kNoPage; page = node(page).next_in_bucket)
      if (!is_node(page) || bucket(node(page).hash) != at || ++n_hashed > n_nodes()) return false;
  }
  return n_hashed == n_indexed &&
         std::ranges::count_if(owners_, [](PageId page) { return page != kNoPage; }) == n_windows &&
         lru_.consistent(n_unused, [&](PageId page) { return is_node(page) && pool.ref_count(page) == 0; }) &&
         window_lru_.consistent(n_unused_windows,
                                [&](PageId page) { return is_indexed_window(page) && pool_.ref_count(page) == 0; });
}

bool PrefixCache::consistent(std::span<const PageTable* const> pages,
                             std::span<const PageTable* const> window_pages) const {
  std::vector<int32_t> held(static_cast<size_t>(n_nodes()), 0), held_in_pool(static_cast<size_t>(pool_.touched()), 0);
  const auto count = [](std::span<const PageTable* const> tables, std::vector<int32_t>& counts) {
    for (const PageTable* table : tables)
      for (const PageId page : *table)
        if (page != kNoPage) ++counts[static_cast<size_t>(page)];
  };
  count(pages, layout_.full > 0 ? held_in_pool : held);
  count(window_pages, held_in_pool);
  for (PageId page = 0; page < pool_.touched(); ++page)
    if (pool_.ref_count(page) != held_in_pool[static_cast<size_t>(page)]) return false;
  for (PageId name = 0; name < node_ids_.touched(); ++name)
    if (node_ids_.ref_count(name) != held[static_cast<size_t>(name)]) return false;
  return consistent();
}

}  // namespace monolith
