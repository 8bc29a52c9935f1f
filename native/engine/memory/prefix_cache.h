// Which KV pages already hold which positions: a trie over full pages, one root per organization, so that a
// request starts from the longest prefix somebody of its organization has computed. Owned by the engine
// thread, on top of the PagePool.
//
// A node is a page (a bundle of pages: see PagePool; what follows calls it a page). It is found through a hash
// chained over its ancestors' position keys, but the hash only finds it: a hit also needs the same parent page and the
// same kPageTokens keys (at the root: the same organization), so a collision costs a comparison and can never
// hand out a wrong page.
//
//   organization ──► page 7 [k0 .. k15] ──► page 3 [k16 .. k31] ──► page 9
//                                     └───► page 4 [k16'.. k31']
//
// Eviction is least recently used first and always meets a leaf, without searching for one:
//  1. Whoever refers to a page refers to all its ancestors (insert() swaps a duplicate for the page
//     already indexed), so the descendants of an unreferenced page are unreferenced too.
//  2. release_all() lets go of the deepest page first, so a page enters the list after its descendants.
//  3. Hence the list's oldest page has no descendant left, and free + cached pages are all obtainable.
// Every operation is O(1) per page; nothing allocates after construction. Bookkeeping of a page becomes memory when the page
// is first used, so that a large pool costs nothing before.
//
// Layers with a window keep theirs in pages of their own, the window pages. A node has one for the same positions as
// long as somebody needs it or nobody else does: whoever refers to it refers to the node, and it may be evicted
// before the node, but never stays behind. Where all layers have a window, nodes hold no memory: they are names,
// and only as many as they are.
//
// Where a model keeps recurrent state, nodes may have a snapshot of it besides (state_slots.h), which leaves with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/page_pool.h"
#include "engine/memory/page_table.h"
#include "engine/memory/position_key.h"
#include "engine/memory/release_order.h"
#include "engine/memory/state_slots.h"
#include "model/kv_layout.h"

namespace monolith {

class PrefixCache {
 public:
  // `seed` keys the hash, and position keys, so that clients cannot aim at one bucket. `hash_mask` is for tests, which force
  // collisions with it. `n_names`: of nodes, where they hold no memory (layout.full is 0). `n_slots`: of recurrent state.
  PrefixCache(int64_t n_pages, uint64_t seed, uint64_t hash_mask = ~uint64_t{0}, const KvLayout& layout = {},
              int64_t n_names = 0, int n_slots = 0);
  // Names of nodes that sequences of up to `max_context` positions can use, given the pages.
  static int64_t names_for(const KvLayout& layout, int64_t n_pages, int max_context);

  const KvLayout& layout() const { return layout_; }
  StateSlots& slots() { return slots_; }
  const StateSlots& slots() const { return slots_; }
  uint64_t seed() const { return seed_; }
  const PagePool& pool() const { return pool_; }
  // Pages that can still be had.
  int64_t available() const { return pool_.free() + pool_.cached(); }
  // Whether allocate() and allocate_window() can still hand out so many.
  bool has_room(int64_t n, int64_t n_window) const;

  // A page with one reference, evicting the least recently used cached one if none is free; kNoPage if
  // all pages are referenced. Its contents are undefined.
  PageId allocate();
  // One more reference.
  void share(PageId page);
  // One reference less.
  void release(PageId page);
  int32_t references(PageId page) const { return node_pool().references(page); }
  // The same for window pages.
  PageId allocate_window();
  void share_window(PageId page);
  // `first_to_leave`: of all that is cached.
  void release_window(PageId page, bool first_to_leave = false);
  // Releases the pages of one sequence, deepest first, kNoPage aside, and clears the tables.
  void release_all(PageTable& pages, PageTable& window_pages);

  // The indexed page that follows `parent` (kNoPage: the first page of `organization`) and holds
  // these positions; kNoPage if there is none. Takes no reference.
  PageId find(uint64_t organization, PageId parent, const PageKeys& keys) const;
  // That for the same positions; kNoPage if there is none any more.
  PageId window_of(PageId page) const { return node(page).window; }
  // Indexes the full, referenced `page` after `parent`. Returns the page that now stands for these
  // positions: `page`, or one indexed earlier, and then the caller's reference has moved there.
  PageId insert(uint64_t organization, PageId parent, const PageKeys& keys, PageId page);
  // Gives the indexed, referenced `page` its window page. Returns the one that now stands there, as insert().
  PageId insert_window(PageId page, PageId window);

  // True if pool, trie, hash chains and lists agree. O(pages); for tests and for the idle engine.
  bool consistent() const;
  // The same, and whether every reference is one from these tables.
  bool consistent(std::span<const PageTable* const> pages, std::span<const PageTable* const> window_pages) const;

 private:
  struct Node {
    uint64_t hash = 0;  // of the whole prefix up to and including this page
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
  PagePool& node_pool() { return layout_.full > 0 ? pool_ : names_; }
  const PagePool& node_pool() const { return layout_.full > 0 ? pool_ : names_; }
  uint64_t hash(uint64_t organization, PageId parent, const PageKeys& keys) const;
  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  PageId find_hashed(uint64_t hash, uint64_t organization, PageId parent, const PageKeys& keys) const;
  bool make_free(int n_pages);
  void evict(PageId page);
  void evict_window(PageId page);

  const KvLayout layout_;
  PagePool pool_;
  PagePool names_;               // of nodes without memory; else empty
  std::vector<Node> nodes_;      // by page, or by name
  std::vector<PageKeys> keys_;   // by node
  std::vector<PageId> buckets_;  // a power of two of chain heads
  std::vector<PageId> owners_;   // by window page that is indexed: its node
  ReleaseOrder unused_, unused_windows_;
  StateSlots slots_;
  uint64_t now_ = 0;  // counts releases
  uint64_t seed_;
  uint64_t hash_mask_;
};

}  // namespace monolith
