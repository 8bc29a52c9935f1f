// LRU list of cached pages or unused state slots, stored as links in an array. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kv/page_pool.h"

namespace monolith {

// Pages or slots in the order in which they became unused.
class LruList {
 public:
  // Memory for a link is committed when its page is first appended. Nothing allocates after construction.
  explicit LruList(int64_t n_pages) { links_.reserve(static_cast<size_t>(n_pages)); }

  PageId oldest() const { return oldest_; }
  uint64_t last_used(PageId page) const { return links_[static_cast<size_t>(page)].last_used; }
  void append(PageId page, uint64_t now);
  void prepend(PageId page);  // Inserts `page` as the oldest entry of the LRU list.
  void remove(PageId page);
  // True if the links agree, the list has `n` entries and `belongs` holds for each of them.
  template <typename Belongs>
  bool consistent(int64_t n, Belongs&& belongs) const {
    PageId older = kNoPage;
    for (PageId page = oldest_; page != kNoPage; page = link(page).newer) {
      if (link(page).older != older || --n < 0 || !belongs(page)) return false;
      older = page;
    }
    return older == newest_ && n == 0;
  }

 private:
  struct Link {
    PageId older = kNoPage, newer = kNoPage;
    uint64_t last_used = 0;
  };
  void reach(PageId page) {
    if (static_cast<size_t>(page) >= links_.size()) links_.resize(static_cast<size_t>(page) + 1);
  }
  Link& link(PageId page) { return links_[static_cast<size_t>(page)]; }
  const Link& link(PageId page) const { return links_[static_cast<size_t>(page)]; }

  std::vector<Link> links_;
  PageId oldest_ = kNoPage, newest_ = kNoPage;
};

}  // namespace monolith
