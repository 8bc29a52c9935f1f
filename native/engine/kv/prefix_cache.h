// Prefix cache: a trie over full KV pages with one root per organization. A request reuses the longest prefix that an
// earlier request of its organization has computed. Owned by the engine thread; built on PagePool.
//
// A node of the trie is one page group (see PagePool), called a page below. A page is found through a hash chained over
// the position keys of its ancestors. A hit also requires the same parent page and the same kPageTokens keys (or, at
// the root, the same organization). A hash collision therefore costs one comparison but can never yield a wrong page.
//
//   organization ──► page 7 [k0 .. k15] ──► page 3 [k16 .. k31] ──► page 9
//                                     └───► page 4 [k16'.. k31']
//
// Eviction takes the least recently used page, which is always a leaf, so no search is needed:
// 1. A sequence that references a page also references all its ancestors (insert() replaces a duplicate by the page
//    already indexed). So all descendants of an unreferenced page are unreferenced too.
// 2. release_all() releases the deepest page first, so a page enters the LRU list after its descendants do.
// 3. Therefore the oldest page in the list has no descendants, and all free and cached pages can be allocated.
//
// Every operation is O(1) per page, and nothing allocates after construction. The bookkeeping memory of a page is
// committed when the page is first used, so a large unused pool costs nothing.
//
// Sliding-window layers store their positions in separate pages, the window pages. A node has at most one window page
// group for its positions. A sequence that references a window page also references its node. A window page may be
// evicted before its node but never outlives it. If all layers have a sliding window, nodes hold no memory: they are
// only node ids, and there is a fixed number of ids.
//
// For models with recurrent state, a node may also have a snapshot of the state (state_slots.h), which is dropped when
// the node is evicted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/page_pool.h"
#include "engine/kv/page_table.h"
#include "engine/kv/position_key.h"
#include "engine/kv/lru_list.h"
#include "engine/kv/state_slots.h"
#include "model/kv_layout.h"

namespace monolith {

class PrefixCache {
 public:
  // `seed` keys the hash and the position keys, so that clients cannot construct hash collisions. `hash_mask` lets
  // tests force collisions. `n_names`: number of node ids if nodes hold no memory (layout.full is 0). `n_slots`: slots
  // of recurrent state.
  PrefixCache(int64_t n_pages, uint64_t seed, uint64_t hash_mask = ~uint64_t{0}, const KvLayout& layout = {},
              int64_t n_names = 0, int n_slots = 0);
  // Number of node ids that sequences of up to `max_context` positions can use with `n_pages` pages; 0 if nodes hold
  // memory.
  static int64_t names_for(const KvLayout& layout, int64_t n_pages, int max_context);

  const KvLayout& layout() const { return layout_; }
  StateSlots& slots() { return slots_; }
  const StateSlots& slots() const { return slots_; }
  uint64_t seed() const { return seed_; }
  const PagePool& pool() const { return pool_; }
  // Pages that can still be allocated: free ones and cached ones.
  int64_t available() const { return pool_.free() + pool_.cached(); }
  // True if allocate() can succeed `n` more times and allocate_window() `n_window` more times.
  bool has_room(int64_t n, int64_t n_window) const;

  // Allocates a page with one reference and undefined contents. Evicts the least recently used cached page if none is
  // free. Returns kNoPage if all pages are referenced.
  PageId allocate();
  // Adds one reference to a page.
  void share(PageId page);
  // Removes one reference to a page. An indexed page without references stays cached.
  void release(PageId page);
  int32_t ref_count(PageId page) const { return node_pool().ref_count(page); }
  // Like allocate(), share() and release(), but for pages of sliding-window layers.
  PageId allocate_window();
  void share_window(PageId page);
  // `first_to_leave`: the page becomes the first to be evicted instead of the last.
  void release_window(PageId page, bool first_to_leave = false);
  // Releases all pages of one sequence, deepest first, skipping kNoPage entries, and clears both tables.
  void release_all(PageTable& pages, PageTable& window_pages);

  // Finds the indexed page that follows `parent` (kNoPage: the first page of `organization`) and holds positions with
  // these keys. Returns kNoPage if there is none. Takes no reference.
  PageId find(uint64_t organization, PageId parent, const PageKeys& keys) const;
  uint64_t n_lookups() const { return n_lookups_; }  // Number of calls of find(). For tests.
  // Window page for the positions of `page`; kNoPage if there is none or if it was evicted.
  PageId window_of(PageId page) const { return node(page).window; }
  // Indexes the full, referenced `page` as a child of `parent`. If an equal page is already indexed, the caller's
  // reference moves to that page and `page` is released. Returns the page that now holds these positions.
  PageId insert(uint64_t organization, PageId parent, const PageKeys& keys, PageId page);
  // Attaches the window page `window` to the indexed, referenced `page`. Handles duplicates and returns a page like
  // insert().
  PageId insert_window(PageId page, PageId window);

  // True if pool, trie, hash chains and LRU lists agree. O(pages); for tests and the idle engine.
  bool consistent() const;
  // Also checks that the page references are exactly those of the given page tables.
  bool consistent(std::span<const PageTable* const> pages, std::span<const PageTable* const> window_pages) const;

 private:
  struct Node {
    uint64_t hash = 0;  // Hash of the whole prefix up to and including this page.
    uint64_t organization = 0;
    PageId parent = kNoPage;
    PageId next_in_bucket = kNoPage;
    PageId window = kNoPage;
    int32_t n_children = 0;
  };

  int64_t n_nodes() const { return node_pool().touched(); }
  void reach_touched();
  bool is_indexed_window(PageId page) const {
    return !owners_.empty() && owners_[static_cast<size_t>(page)] != kNoPage;
  }
  Node& node(PageId page) { return nodes_[static_cast<size_t>(page)]; }
  const Node& node(PageId page) const { return nodes_[static_cast<size_t>(page)]; }
  PagePool& node_pool() { return layout_.full > 0 ? pool_ : node_ids_; }
  const PagePool& node_pool() const { return layout_.full > 0 ? pool_ : node_ids_; }
  uint64_t hash(uint64_t organization, PageId parent, const PageKeys& keys) const;
  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  PageId find_hashed(uint64_t hash, uint64_t organization, PageId parent, const PageKeys& keys) const;
  bool make_free(int n_pages);
  void evict(PageId page);
  void evict_window(PageId page);

  const KvLayout layout_;
  PagePool pool_;
  PagePool node_ids_;            // Reference counts of node ids if nodes hold no memory; otherwise empty.
  std::vector<Node> nodes_;      // Trie nodes, indexed by page, or by node id if nodes hold no memory.
  std::vector<PageKeys> keys_;   // Position keys of each node, indexed like nodes_.
  std::vector<PageId> buckets_;  // Heads of the hash chains; the size is a power of two.
  std::vector<PageId> owners_;   // Node of each indexed window page; kNoPage for other pages.
  LruList lru_, window_lru_;
  StateSlots slots_;
  uint64_t now_ = 0;  // Counter of page releases, which serves as the time in the LRU lists.
  uint64_t seed_;
  uint64_t hash_mask_;
  mutable uint64_t n_lookups_ = 0;
};

}  // namespace monolith
