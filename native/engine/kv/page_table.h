// Maps a sequence's positions to KV pages: one page group (see PagePool) per kPageTokens positions. Each page of a
// group has its own row, in the layout that Segment::pages expects. The constructor allocates all memory. Engine thread
// only.
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

#include "backend/kv_cache.h"
#include "engine/kv/page_pool.h"

namespace monolith {

inline int pages_for(int n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

class PageTable {
 public:
  PageTable() = default;
  // `capacity`: maximum number of page groups. `n_rows`: pages per group.
  PageTable(size_t capacity, size_t n_rows) : capacity_(capacity), ids_(capacity * n_rows, kNoPage) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t capacity() const { return capacity_; }  // Maximum number of page groups; 0 for a default-constructed table.
  // First page of the page group at `index`; kNoPage if the entry is empty.
  PageId operator[](size_t index) const {
    assert(index < size_);
    return ids_[index];
  }
  const PageId* begin() const { return ids_.data(); }
  const PageId* end() const { return ids_.data() + size_; }
  // For each group, the page at index `row` within the group.
  const PageId* row(size_t row) const { return ids_.data() + row * capacity_; }

  void set(size_t index, PageId bundle, const PagePool& pool) {
    assert(index < size_);
    PageId page = bundle;
    for (size_t at = index; at < ids_.size(); at += capacity_) {
      ids_[at] = page;
      if (page != kNoPage && at + capacity_ < ids_.size()) page = pool.next(page);
    }
  }
  void push_back(PageId bundle, const PagePool& pool) {
    assert(size_ < capacity_);
    set(size_++, bundle, pool);
  }
  void clear() { size_ = 0; }

 private:
  size_t capacity_ = 0, size_ = 0;
  std::vector<PageId> ids_;  // Page ids, shape [n_rows][capacity].
};

}  // namespace monolith
