// Copies KV pages and recurrent-state snapshots between a model's memory and host memory. Engine thread only.
//
// The bytes of a page or snapshot have a fixed size and layout for a given backend, model and set of load options, and
// do not depend on the number of pages. They can therefore be written back by another process.
#pragma once

#include <cstddef>

#include "engine/kv/prefix_cache.h"
#include "model/model.h"

namespace monolith {

// Sizes in bytes of the kinds of data to which a prefix-cache node can refer. 0 = the model stores no data of this
// kind.
struct PageSizes {
  size_t full = 0;      // Page group of layers without a sliding window.
  size_t window = 0;    // Page group of layers with a sliding window.
  size_t snapshot = 0;  // Recurrent state.
};

class PageCopier {
 public:
  explicit PageCopier(Model& model);

  const PageSizes& sizes() const { return sizes_; }
  // Copies a page group, given its first page, to or from a buffer of PageSizes::full or PageSizes::window bytes.
  void read_group(const PagePool& pool, PageId first, std::byte* to);
  void write_group(const PagePool& pool, PageId first, const std::byte* from);
  // Copies the state in a slot to or from a buffer of PageSizes::snapshot bytes.
  void read_slot(SlotId slot, std::byte* to);
  void write_slot(SlotId slot, const std::byte* from);

 private:
  Model& model_;
  const size_t page_bytes_;
  const PageSizes sizes_;
};

}  // namespace monolith
