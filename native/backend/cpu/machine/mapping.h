// Anonymous memory straight from the kernel: zeroed, page aligned, in huge pages where the size warrants it.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/result.h"

namespace monolith {

// Owns one region. Pages become memory on first touch, of 2 MiB each where the region is large and the
// system grants it, and spread over the machine's memory nodes if it has several (numa.h).
class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  // Errors: kOutOfMemory.
  static Result<Mapping> create(size_t bytes);

  // Puts what the system gave in small pages into huge ones, where it has them, until then. Bytes that lie in huge pages now,
  // of those it came to; 0 also before Linux 6.1, which has no such call. Others may read meanwhile: they wait for a page at most.
  size_t gather(std::chrono::steady_clock::time_point until) const;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Bytes that one touch may make memory: of a huge page where the region asks for these.
  size_t page_bytes() const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* base_ = nullptr;  // what munmap gets: data_ may be further, at a huge page's edge
  size_t base_size_ = 0;
};

}  // namespace monolith
