// The KV pages of one engine: who refers to each and which are free. Owned by the engine thread.
//
// What belongs to the same positions and is referred to together is one bundle: a page, or several in a chain. It
// goes by the name of its first page, its lead. Every bundle is in exactly one of two states, and the pages of
// neither are free; free + cached + referenced pages == size():
//
//   free ──allocate()──► referenced ──release() to 0──► free     (not in the prefix cache)
//                          ▲   │
//                  share() │   └──release() to 0──► cached       (set_indexed() before)
//                          └───────────────────────────┘  │
//   free ◄──────────────────────evict()───────────────────┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace monolith {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

class PagePool {
 public:
  // Reserves address space for the bookkeeping of `n_pages`. It becomes memory as pages are used for the first time; nothing
  // later allocates.
  explicit PagePool(int64_t n_pages);

  int64_t size() const { return n_pages_; }
  // Pages from 0 that were ever allocated. Free ones among them are allocated again before any other.
  int64_t touched() const { return static_cast<int64_t>(references_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()) + size() - touched(); }
  int64_t cached() const { return cached_; }
  int64_t referenced() const { return size() - free() - cached_; }

  // Of leads.
  int32_t references(PageId page) const { return references_[static_cast<size_t>(page)]; }
  bool indexed(PageId page) const { return indexed_[static_cast<size_t>(page)] != 0; }
  // The page behind this one in its bundle; kNoPage: it is the last.
  PageId next(PageId page) const { return next_[static_cast<size_t>(page)]; }

  // A bundle of `n` free pages with one reference; kNoPage if fewer are free.
  PageId allocate(int n = 1);
  // One more reference to a referenced or cached bundle.
  void share(PageId page);
  // One reference less; returns what is left. At 0 the bundle becomes cached if indexed, else free.
  int32_t release(PageId page);
  // Says that the prefix cache knows a referenced bundle; from then on it survives its last reference.
  void set_indexed(PageId page);
  // Takes a cached bundle out of the cache: free again.
  void evict(PageId page);

  // True if every count and list agrees with every other. O(size()).
  bool consistent() const;

 private:
  int64_t pages_of(PageId page) const;
  void set_free(PageId page);

  PageId take();

  int64_t n_pages_;
  // Of touched pages:
  std::vector<int32_t> references_;  // of leads; 0 for the others
  std::vector<uint8_t> indexed_;     // the same
  std::vector<PageId> next_;         // of pages that are not free
  std::vector<PageId> free_;         // a stack: the page released last is the warmest
  int64_t cached_ = 0;
};

}  // namespace monolith
