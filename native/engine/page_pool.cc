#include "engine/page_pool.h"

#include <cassert>

namespace monolith {

PagePool::PagePool(int64_t n_pages)
    : references_(static_cast<size_t>(n_pages), 0), indexed_(static_cast<size_t>(n_pages), 0) {
  free_.reserve(static_cast<size_t>(n_pages));
  for (int64_t page = n_pages - 1; page >= 0; --page) free_.push_back(static_cast<PageId>(page));
}

PageId PagePool::allocate() {
  if (free_.empty()) return kNoPage;
  const PageId page = free_.back();
  free_.pop_back();
  assert(references(page) == 0 && !indexed(page));
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::share(PageId page) {
  int32_t& references = references_[static_cast<size_t>(page)];
  assert(references > 0 || indexed(page));
  if (references++ == 0) --cached_;
}

int32_t PagePool::release(PageId page) {
  int32_t& references = references_[static_cast<size_t>(page)];
  assert(references > 0);
  if (--references == 0) {
    if (indexed(page)) {
      ++cached_;
    } else {
      free_.push_back(page);
    }
  }
  return references;
}

void PagePool::set_indexed(PageId page) {
  assert(references(page) > 0 && !indexed(page));
  indexed_[static_cast<size_t>(page)] = 1;
}

void PagePool::evict(PageId page) {
  assert(references(page) == 0 && indexed(page) && cached_ > 0);
  indexed_[static_cast<size_t>(page)] = 0;
  --cached_;
  free_.push_back(page);
}

bool PagePool::consistent() const {
  int64_t cached = 0, unheld = 0;
  for (size_t page = 0; page < references_.size(); ++page) {
    if (references_[page] < 0) return false;
    if (references_[page] > 0) continue;
    if (indexed_[page]) ++cached; else ++unheld;
  }
  if (cached != cached_ || unheld != free()) return false;
  std::vector<uint8_t> seen(references_.size(), 0);
  for (const PageId page : free_) {
    const auto at = static_cast<size_t>(page);
    if (at >= seen.size() || seen[at] || references_[at] != 0 || indexed_[at]) return false;
    seen[at] = 1;
  }
  return true;
}

}  // namespace monolith
