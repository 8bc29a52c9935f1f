// Anonymous memory mapped directly from the kernel: zeroed, page-aligned, and in huge pages if the region is large
// enough.
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace monolith {

// Owns one memory region. Pages are allocated on first touch. In a large region, they are 2 MiB pages if the system
// provides these, and are spread over the NUMA nodes if there are several (numa.h).
class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  // Errors: kOutOfMemory.
  static Result<Mapping> create(size_t bytes);

  // Collapses small pages into huge pages until the system has no free huge pages or `stopped` returns true. `stopped`
  // is called before each huge page. Returns how many bytes of the processed part are in huge pages. Returns 0 on
  // kernels before Linux 6.1, which lack the system call. Other threads may use the region in the meantime; they wait
  // for at most one page.
  size_t collapse_huge_pages(const std::function<bool()>& stopped) const;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Number of bytes that the system allocates when one address is touched: the size of a huge page if the region uses
  // these, otherwise the size of a small page.
  size_t page_bytes() const;

  // Requests that the untouched pages of bytes [begin, end) of the region be allocated on this NUMA node. Both ends are
  // rounded to huge-page boundaries.
  void place_on_node(size_t begin, size_t end, int node) const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* base_ = nullptr;  // Address for munmap(). data_ may be after it, at a huge-page boundary.
  size_t base_size_ = 0;
};

}  // namespace monolith
