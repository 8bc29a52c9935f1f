// Which KV pages already hold which tokens: a trie over full pages, one root per organization, so that a
// request starts from the longest prefix somebody of its organization has computed. Owned by the engine
// thread, on top of the PagePool.
//
// A node is a page. It is found through a hash chained over its ancestors' tokens, but the hash only
// finds it: a hit also needs the same parent page and the same kPageTokens tokens (at the root: the same
// organization), so a collision costs a comparison and can never hand out a wrong page.
//
//   organization ──► page 7 [t0 .. t15] ──► page 3 [t16 .. t31] ──► page 9
//                                     └───► page 4 [t16'.. t31']
//
// Eviction is least recently used first and always meets a leaf, without searching for one:
//  1. Whoever refers to a page refers to all its ancestors (insert() swaps a duplicate for the page
//     already indexed), so the descendants of an unreferenced page are unreferenced too.
//  2. release_all() lets go of the deepest page first, so a page enters the list after its descendants.
//  3. Hence the list's oldest page has no descendant left, and free + cached pages are all obtainable.
// Every operation is O(1) per page; nothing allocates after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/page_pool.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

class PrefixCache {
 public:
  // `seed` keys the hash so that clients cannot aim at one bucket. `hash_mask` is for tests, which force
  // collisions with it.
  PrefixCache(int64_t n_pages, uint64_t seed, uint64_t hash_mask = ~uint64_t{0});

  const PagePool& pool() const { return pool_; }
  // Pages allocate() can still hand out.
  int64_t available() const { return pool_.free() + pool_.cached(); }

  // A page with one reference, evicting the least recently used cached one if none is free; kNoPage if
  // all pages are referenced. Its contents are undefined.
  PageId allocate();
  // One more reference.
  void share(PageId page);
  // One reference less.
  void release(PageId page);
  // Releases the pages of one sequence, deepest first, kNoPage aside, and clears the vector.
  void release_all(std::vector<PageId>& pages);

  // The indexed page that follows `parent` (kNoPage: the first page of `organization`) and holds
  // `tokens` (kPageTokens of them); kNoPage if there is none. Takes no reference.
  PageId find(uint64_t organization, PageId parent, const TokenId* tokens) const;
  // Indexes the full, referenced `page` after `parent`. Returns the page that now stands for these
  // tokens: `page`, or one indexed earlier, and then the caller's reference has moved there.
  PageId insert(uint64_t organization, PageId parent, const TokenId* tokens, PageId page);

  // True if pool, trie, hash chains and list agree. O(pages); for tests and for the idle engine.
  bool consistent() const;

 private:
  struct Node {
    uint64_t hash = 0;           // of the whole prefix up to and including this page
    uint64_t organization = 0;
    PageId parent = kNoPage;
    PageId next_in_bucket = kNoPage;
    PageId older = kNoPage, newer = kNoPage;   // in the list of unreferenced pages
    int32_t n_children = 0;
  };

  Node& node(PageId page) { return nodes_[static_cast<size_t>(page)]; }
  const Node& node(PageId page) const { return nodes_[static_cast<size_t>(page)]; }
  const TokenId* tokens_of(PageId page) const { return &tokens_[static_cast<size_t>(page) * kPageTokens]; }
  uint64_t hash(uint64_t organization, PageId parent, const TokenId* tokens) const;
  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  PageId find_hashed(uint64_t hash, uint64_t organization, PageId parent, const TokenId* tokens) const;
  void append_newest(PageId page);
  void unlink(PageId page);
  void evict_oldest();

  PagePool pool_;
  std::vector<Node> nodes_;       // by page
  std::vector<TokenId> tokens_;   // [page][kPageTokens]
  std::vector<PageId> buckets_;   // a power of two of chain heads
  PageId oldest_ = kNoPage, newest_ = kNoPage;
  uint64_t seed_;
  uint64_t hash_mask_;
};

}  // namespace monolith
