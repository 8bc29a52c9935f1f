#include "engine/kv/page_pool.h"

#include <cassert>

namespace monolith {

PagePool::PagePool(int64_t n_pages) : n_pages_(n_pages) {
  const auto size = static_cast<size_t>(n_pages);
  ref_counts_.reserve(size);
  indexed_.reserve(size);
  next_.reserve(size);
  free_.reserve(size);
}

// Returns a free page. At least one page must be free.
PageId PagePool::take() {
  if (!free_.empty()) {
    const PageId page = free_.back();
    free_.pop_back();
    return page;
  }
  const auto page = static_cast<PageId>(ref_counts_.size());
  ref_counts_.push_back(0);
  indexed_.push_back(0);
  next_.push_back(kNoPage);
  return page;
}

PageId PagePool::allocate(int n) {
  assert(n >= 1);
  if (free() < n) return kNoPage;
  PageId behind = kNoPage;
  for (; n > 0; --n) {
    const PageId page = take();
    assert(ref_count(page) == 0 && !indexed(page));
    next_[static_cast<size_t>(page)] = behind;
    behind = page;
  }
  ref_counts_[static_cast<size_t>(behind)] = 1;
  return behind;
}

int64_t PagePool::pages_of(PageId page) const {
  int64_t n = 0;
  for (; page != kNoPage; page = next(page)) ++n;
  return n;
}

void PagePool::set_free(PageId page) {
  while (page != kNoPage) {
    const PageId behind = next(page);
    free_.push_back(page);
    page = behind;
  }
}

void PagePool::share(PageId page) {
  int32_t& ref_count = ref_counts_[static_cast<size_t>(page)];
  assert(ref_count > 0 || indexed(page));
  if (ref_count++ == 0) cached_ -= pages_of(page);
}

int32_t PagePool::release(PageId page) {
  int32_t& ref_count = ref_counts_[static_cast<size_t>(page)];
  assert(ref_count > 0);
  if (--ref_count == 0) {
    if (indexed(page)) {
      cached_ += pages_of(page);
    } else {
      set_free(page);
    }
  }
  return ref_count;
}

void PagePool::set_indexed(PageId page) {
  assert(ref_count(page) > 0 && !indexed(page));
  indexed_[static_cast<size_t>(page)] = 1;
}

void PagePool::evict(PageId page) {
  assert(ref_count(page) == 0 && indexed(page));
  indexed_[static_cast<size_t>(page)] = 0;
  cached_ -= pages_of(page);
  assert(cached_ >= 0);
  set_free(page);
}

bool PagePool::consistent() const {
  std::vector<uint8_t> seen(ref_counts_.size(), 0);
  int64_t cached = 0, n_seen = 0;
  const auto see = [&](PageId page) {
    const auto at = static_cast<size_t>(page);
    if (page < 0 || at >= seen.size() || seen[at]) return false;
    seen[at] = 1;
    ++n_seen;
    return true;
  };
  for (PageId lead = 0; lead < touched(); ++lead) {
    if (ref_count(lead) < 0) return false;
    if (ref_count(lead) == 0 && !indexed(lead)) continue;
    for (PageId page = lead; page != kNoPage; page = next(page)) {
      if (!see(page) || (page != lead && (ref_count(page) != 0 || indexed(page)))) return false;
      cached += ref_count(lead) == 0;
    }
  }
  for (const PageId page : free_)
    if (!see(page) || ref_count(page) != 0 || indexed(page)) return false;
  return cached == cached_ && n_seen == touched();
}

}  // namespace monolith
