// Reference counts and free list of an engine's KV pages. Owned by the engine thread.
//
// A page group is the unit of allocation: one page, or a chain of pages that store the same positions for different
// layers and share one reference count. The id of its first page stands for the group. Every allocated group is either
// referenced or cached, and free + cached + referenced pages == size():
//
//   free ──allocate()──► referenced ──release() to 0──► free     (not in the prefix cache)
//                          ▲   │
//                  share() │   └──release() to 0──► cached       (after set_indexed())
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
  // Reserves address space for the bookkeeping of `n_pages` pages. The kernel commits memory only when a page is used
  // for the first time. No later call allocates.
  explicit PagePool(int64_t n_pages);

  int64_t size() const { return n_pages_; }
  // Number of pages that have ever been allocated; their ids are 0 .. touched() - 1. Free pages in this range are
  // reused before untouched pages are allocated.
  int64_t touched() const { return static_cast<int64_t>(ref_counts_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()) + size() - touched(); }
  int64_t cached() const { return cached_; }
  int64_t referenced() const { return size() - free() - cached_; }

  // In references() and indexed(), `page` must be the first page of a group.
  int32_t ref_count(PageId page) const { return ref_counts_[static_cast<size_t>(page)]; }
  bool indexed(PageId page) const { return indexed_[static_cast<size_t>(page)] != 0; }
  // Next page of the same group; kNoPage after the last one.
  PageId next(PageId page) const { return next_[static_cast<size_t>(page)]; }

  // Allocates a group of `n` free pages with one reference. Returns kNoPage if fewer are free.
  PageId allocate(int n = 1);
  // Adds a reference to a referenced or cached group.
  void share(PageId page);
  // Removes one reference and returns the remaining count. At 0 the group becomes cached if it is indexed, otherwise
  // free.
  int32_t release(PageId page);
  // Marks a referenced group as part of the prefix cache. It then stays cached when its last reference is released.
  void set_indexed(PageId page);
  // Removes a cached group from the cache and frees its pages.
  void evict(PageId page);

  // Returns true if all counts and lists are consistent. Takes O(size()) time; for tests and for checks while the
  // engine is idle.
  bool consistent() const;

 private:
  int64_t pages_of(PageId page) const;
  void set_free(PageId page);

  PageId take();

  int64_t n_pages_;
  // These three vectors are indexed by page and have touched() entries.
  std::vector<int32_t> ref_counts_;  // Reference count of a group, at its first page; 0 for other pages.
  std::vector<uint8_t> indexed_;     // 1 if the prefix cache contains the group, at its first page.
  std::vector<PageId> next_;         // Next page of the group; meaningful only for pages that are not free.
  // Stack of free pages: the page released last is reused first, because it is most likely still in the CPU cache.
  std::vector<PageId> free_;
  int64_t cached_ = 0;
};

}  // namespace monolith
