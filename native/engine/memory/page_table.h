// Which pages hold a sequence's positions: for every kPageTokens of them a bundle of the PagePool, and of its pages
// one row each, as Segment::pages wants them. All memory is taken at construction; engine thread only from then on.
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

#include "backend/kv_cache.h"
#include "engine/memory/page_pool.h"

namespace monolith {

inline int pages_for(int n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

class PageTable {
 public:
  PageTable() = default;
  // `n_rows`: pages of a bundle.
  PageTable(size_t capacity, size_t n_rows) : capacity_(capacity), ids_(capacity * n_rows, kNoPage) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The bundle; kNoPage where there is none.
  PageId operator[](size_t index) const {
    assert(index < size_);
    return ids_[index];
  }
  const PageId* begin() const { return ids_.data(); }
  const PageId* end() const { return ids_.data() + size_; }
  // Pages number `row` of all bundles.
  const PageId* row(size_t row) const { return ids_.data() + row * capacity_; }

  void set(size_t index, PageId bundle, const PagePool& pool) {
    assert(index < size_);
    PageId page = bundle;
    for (size_t at = index; at < ids_.size(); at += capacity_) {
      ids_[at] = page;
      // Not of the last: a node's name is no page (PrefixCache::names_for).
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
  std::vector<PageId> ids_;  // [n_rows][capacity]
};

}  // namespace monolith
