// Anonymous memory straight from the kernel: zeroed, page aligned, in huge pages where the size warrants it.
#pragma once

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

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* base_ = nullptr;        // what munmap gets: data_ may be further, at a huge page's edge
  size_t base_size_ = 0;
};

}  // namespace monolith
