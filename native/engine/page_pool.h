// The KV pages of one engine: who refers to each and which are free. Owned by the engine thread.
//
// A page is in exactly one of three states, and free + cached + referenced == size():
//
//   free ──allocate()──► referenced ──release() to 0──► free     (not in the prefix cache)
//                          ▲   │
//                  share() │   └──release() to 0──► cached       (set_indexed(page, true) before)
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
  // Allocates all bookkeeping for `n_pages` >= 1; nothing later allocates.
  explicit PagePool(int64_t n_pages);

  int64_t size() const { return static_cast<int64_t>(references_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t cached() const { return cached_; }
  int64_t referenced() const { return size() - free() - cached_; }

  int32_t references(PageId page) const { return references_[static_cast<size_t>(page)]; }
  bool indexed(PageId page) const { return indexed_[static_cast<size_t>(page)] != 0; }

  // A free page with one reference; kNoPage if none is free.
  PageId allocate();
  // One more reference to a referenced or cached page.
  void share(PageId page);
  // One reference less; returns what is left. At 0 the page becomes cached if indexed, else free.
  int32_t release(PageId page);
  // Says that the prefix cache knows a referenced page; from then on it survives its last reference.
  void set_indexed(PageId page);
  // Takes a cached page out of the cache: free again.
  void evict(PageId page);

  // True if every count and list agrees with every other. O(size()).
  bool consistent() const;

 private:
  std::vector<int32_t> references_;
  std::vector<uint8_t> indexed_;
  std::vector<PageId> free_;   // a stack: the page released last is the warmest
  int64_t cached_ = 0;
};

}  // namespace monolith
