#include "engine/kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace monolith {
namespace {

constexpr int64_t kMaxNodesWithoutPages = 1 << 20;

// One round of multiply and xor-shift. The constant is 2^64 divided by the golden ratio, rounded to an odd number.
uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 29);
}

}  // namespace

PrefixCache::PrefixCache(const PrefixCacheOptions& options)
    : layout_(options.layout),
      pool_(options.n_pages),
      max_nodes_(options.max_nodes > 0 ? options.max_nodes
                                       : options.n_pages / (layout_.full > 0 ? layout_.full : layout_.windowed)),
      buckets_(std::bit_ceil(static_cast<size_t>(max_nodes_) * 2), kNoNode),
      lru_(max_nodes_),
      window_lru_(layout_.windowed > 0 ? options.n_pages : 0),
      slots_(options.n_slots, max_nodes_),
      seed_(options.seed),
      hash_mask_(options.hash_mask) {
  nodes_.reserve(static_cast<size_t>(max_nodes_));
  keys_.reserve(static_cast<size_t>(max_nodes_));
  free_nodes_.reserve(static_cast<size_t>(max_nodes_));
  if (layout_.windowed > 0) owners_.reserve(static_cast<size_t>(options.n_pages));
}

// If nodes have no pages (all layers have a sliding window), returns one full context of nodes per window of pages that
// the pool can hold, up to a limit.
int64_t PrefixCache::nodes_for(const KvLayout& layout, int64_t n_pages, int max_context) {
  if (layout.full > 0) return 0;
  const int64_t of_context = (int64_t{max_context} + kPageTokens - 1) / kPageTokens;
  const int64_t windows = n_pages / (layout.windowed * std::min(of_context, layout.window_pages(1))) + 1;
  return std::max(of_context, std::min(of_context * windows, kMaxNodesWithoutPages));
}

uint64_t PrefixCache::hash(uint64_t organization, NodeId parent, const PageKeys& keys) const {
  uint64_t state = parent == kNoNode ? mix(seed_, organization) : at(parent).hash;
  for (const PositionKey key : keys) state = mix(state, key);
  return mix(state, seed_) & hash_mask_;
}

NodeId PrefixCache::find_hashed(uint64_t hash, uint64_t organization, NodeId parent, const PageKeys& keys) const {
  for (NodeId node = buckets_[bucket(hash)]; node != kNoNode; node = at(node).next_in_bucket) {
    const Node& candidate = at(node);
    if (candidate.hash == hash && candidate.parent == parent && candidate.organization == organization &&
        keys_[static_cast<size_t>(node)] == keys) {
      return node;
    }
  }
  return kNoNode;
}

NodeId PrefixCache::find(uint64_t organization, NodeId parent, const PageKeys& keys) const {
  ++n_lookups_;
  return find_hashed(hash(organization, parent, keys), organization, parent, keys);
}

void PrefixCache::share(NodeId node) {
  Node& shared = at(node);
  if (shared.ref_count++ > 0) return;
  lru_.remove(node);
  if (const PageId page = device_page(shared.location); page != kNoPage) pool_.share(page);
}

void PrefixCache::release(NodeId node) {
  Node& released = at(node);
  assert(released.ref_count > 0);
  if (--released.ref_count > 0) return;
  lru_.append(node, ++now_);
  if (const PageId page = device_page(released.location); page != kNoPage) pool_.release(page);
}

// Returns an unused node, evicting the least recently used one if necessary. Returns kNoNode if all nodes are
// referenced.
NodeId PrefixCache::take_node() {
  if (n_free_nodes() == 0) {
    if (lru_.oldest() == kNoNode) return kNoNode;
    evict(lru_.oldest());
  }
  if (!free_nodes_.empty()) {
    const NodeId node = free_nodes_.back();
    free_nodes_.pop_back();
    return node;
  }
  nodes_.emplace_back();
  keys_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId PrefixCache::insert(uint64_t organization, NodeId parent, const PageKeys& keys, PageId page) {
  assert((page == kNoPage) == (layout_.full == 0) && (page == kNoPage || pool_.ref_count(page) > 0));
  assert(parent == kNoNode || ref_count(parent) > 0);
  const uint64_t hashed = hash(organization, parent, keys);
  if (const NodeId existing = find_hashed(hashed, organization, parent, keys); existing != kNoNode) {
    share(existing);
    if (page != kNoPage) release(page);
    return existing;
  }
  const NodeId node = take_node();
  if (node == kNoNode) return kNoNode;
  NodeId& head = buckets_[bucket(hashed)];
  Node& added = at(node);
  added = {.hash = hashed,
           .organization = organization,
           .parent = parent,
           .next_in_bucket = head,
           .ref_count = 1,
           .generation = added.generation,
           .location = {},
           .window = {}};
  head = node;
  if (page != kNoPage) {
    added.location = DevicePages{page};
    pool_.set_indexed(page);
  }
  if (parent != kNoNode) ++at(parent).n_children;
  keys_[static_cast<size_t>(node)] = keys;
  return node;
}

PageId PrefixCache::insert_window(NodeId node, PageId window) {
  assert(ref_count(node) > 0 && pool_.ref_count(window) > 0);
  const PageId existing = window_of(node);
  if (existing == window) return window;
  if (existing != kNoPage) {
    share_window(existing);
    release_window(window);
    return existing;
  }
  pool_.set_indexed(window);
  at(node).window = DevicePages{window};
  owners_[static_cast<size_t>(window)] = node;
  return window;
}

PageId PrefixCache::allocate() {
  assert(layout_.full > 0);
  if (!make_free(layout_.full)) return kNoPage;
  const PageId page = pool_.allocate(layout_.full);
  if (layout_.windowed > 0) owners_.resize(static_cast<size_t>(pool_.touched()), kNoNode);
  return page;
}

PageId PrefixCache::allocate_window() {
  if (!make_free(layout_.windowed)) return kNoPage;
  const PageId page = pool_.allocate(layout_.windowed);
  owners_.resize(static_cast<size_t>(pool_.touched()), kNoNode);
  return page;
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

void PrefixCache::release_all(KvState& kv) {
  for (size_t i = std::max(kv.pages.size(), kv.window_pages.size()); i-- > 0;) {
    if (i < kv.window_pages.size() && kv.window_pages[i] != kNoPage) release_window(kv.window_pages[i]);
    if (i < kv.nodes.size())
      release(kv.nodes[i]);
    else if (i < kv.pages.size())
      release(kv.pages[i]);
  }
  kv.nodes.clear();
  kv.pages.clear();
  kv.window_pages.clear();
}

// The loop starts with the oldest node. In the LRU list, a node's descendants are older than the node itself, so they
// are evicted first, and each evicted node is a leaf.
void PrefixCache::clear(std::optional<uint64_t> organization) {
  for (NodeId node = lru_.oldest(); node != kNoNode;) {
    const NodeId next = lru_.newer(node);
    if (!organization || at(node).organization == *organization) evict(node);
    node = next;
  }
}

// Evicts nodes and window pages until `n_pages` are free. Evicts nothing and returns false if that is impossible.
bool PrefixCache::make_free(int n_pages) {
  if (available() < n_pages) return false;
  while (pool_.free() < n_pages) {
    const NodeId node = layout_.full > 0 ? lru_.oldest() : kNoNode;
    const PageId window = window_lru_.oldest();
    assert(node != kNoNode || window != kNoPage);
    if (node == kNoNode || (window != kNoPage && window_lru_.last_used(window) < lru_.last_used(node)))
      evict_window(window);
    else
      evict(node);
  }
  return true;
}

void PrefixCache::evict(NodeId node) {
  Node& evicted = at(node);
  // The oldest node in the LRU list is always a leaf; see the top of prefix_cache.h.
  assert(evicted.n_children == 0 && evicted.ref_count == 0);
  if (const PageId window = device_page(evicted.window); window != kNoPage) evict_window(window);
  slots_.drop(node);
  lru_.remove(node);
  NodeId* link = &buckets_[bucket(evicted.hash)];
  while (*link != node) {
    assert(*link != kNoNode);
    link = &at(*link).next_in_bucket;
  }
  *link = evicted.next_in_bucket;
  if (evicted.parent != kNoNode) --at(evicted.parent).n_children;
  if (const PageId page = device_page(evicted.location); page != kNoPage) pool_.evict(page);
  evicted.ref_count = kUnused;
  ++evicted.generation;
  free_nodes_.push_back(node);
}

void PrefixCache::evict_window(PageId page) {
  window_lru_.remove(page);
  NodeId& owner = owners_[static_cast<size_t>(page)];
  at(owner).window = std::monostate{};
  owner = kNoNode;
  pool_.evict(page);
}

// True if each node and its window page refer to each other, and the LRU list contains exactly the unreferenced window
// pages.
bool PrefixCache::windows_consistent() const {
  int64_t n_windows = 0, n_unused = 0;
  for (const Node& node : nodes_) {
    const PageId window = node.ref_count == kUnused ? kNoPage : device_page(node.window);
    if (window == kNoPage) continue;
    ++n_windows;
    n_unused += pool_.ref_count(window) == 0;
    if (!pool_.indexed(window) || owners_[static_cast<size_t>(window)] != static_cast<NodeId>(&node - nodes_.data()))
      return false;
    if (pool_.ref_count(window) > 0 && node.ref_count == 0) return false;
  }
  return std::ranges::count_if(owners_, [](NodeId node) { return node != kNoNode; }) == n_windows &&
         window_lru_.consistent(n_unused,
                                [&](PageId page) { return is_indexed_window(page) && pool_.ref_count(page) == 0; });
}

bool PrefixCache::consistent() const {
  if (!pool_.consistent() || !windows_consistent()) return false;
  std::vector<int32_t> children(nodes_.size(), 0);
  int64_t n_used = 0, n_hashed = 0, n_unreferenced = 0, n_indexed = 0;
  for (const Node& node : nodes_) {
    if (node.ref_count == kUnused) continue;
    ++n_used;
    n_unreferenced += node.ref_count == 0;
    const PageId page = device_page(node.location);
    if ((page == kNoPage) != (layout_.full == 0)) return false;
    if (page != kNoPage && (!pool_.indexed(page) || (pool_.ref_count(page) == 0) != (node.ref_count == 0)))
      return false;
    if (node.parent == kNoNode) continue;
    if (!in_use(node.parent) || at(node.parent).organization != node.organization) return false;
    if (node.ref_count > 0 && ref_count(node.parent) == 0) return false;
    ++children[static_cast<size_t>(node.parent)];
  }
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].ref_count != kUnused && nodes_[i].n_children != children[i]) return false;
  for (PageId page = 0; page < pool_.touched(); ++page) n_indexed += pool_.indexed(page) && !is_indexed_window(page);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (NodeId node = buckets_[i]; node != kNoNode; node = at(node).next_in_bucket)
      if (!in_use(node) || bucket(at(node).hash) != i || ++n_hashed > n_used) return false;
  }
  return n_hashed == n_used && n_used + static_cast<int64_t>(free_nodes_.size()) == std::ssize(nodes_) &&
         n_indexed == (layout_.full > 0 ? n_used : 0) &&
         lru_.consistent(n_unreferenced, [&](NodeId node) { return ref_count(node) == 0; });
}

bool PrefixCache::consistent(std::span<const KvState* const> sequences) const {
  std::vector<int32_t> held(nodes_.size(), 0), held_in_pool(static_cast<size_t>(pool_.touched()), 0);
  for (const KvState* kv : sequences) {
    for (size_t i = 0; i < kv->nodes.size(); ++i) {
      const NodeId node = kv->nodes[i];
      if (layout_.full > 0 && kv->pages[i] != page_of(node)) return false;
      // Only the first reference to a node adds a reference to the node's page.
      if (held[static_cast<size_t>(node)]++ == 0 && layout_.full > 0)
        ++held_in_pool[static_cast<size_t>(page_of(node))];
    }
    for (size_t i = kv->nodes.size(); i < kv->pages.size(); ++i) ++held_in_pool[static_cast<size_t>(kv->pages[i])];
    for (const PageId page : kv->window_pages)
      if (page != kNoPage) ++held_in_pool[static_cast<size_t>(page)];
  }
  for (PageId page = 0; page < pool_.touched(); ++page)
    if (pool_.ref_count(page) != held_in_pool[static_cast<size_t>(page)]) return false;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (std::max(nodes_[i].ref_count, 0) != held[i]) return false;
  return consistent();
}

}  // namespace monolith
