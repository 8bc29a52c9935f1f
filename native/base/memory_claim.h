// Memory that this process has planned but not touched yet. The kernel still counts it as free, but later plans must
// not use it.
#pragma once

#include <cstdint>

namespace monolith {

// The claim of one plan. Owned by one thread at a time. Any thread may read the sum.
class MemoryClaim {
 public:
  explicit MemoryClaim(uint64_t bytes = 0) { set(bytes); }
  ~MemoryClaim() { set(0); }
  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

  // Sets the number of bytes that are still to be touched.
  void set(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }

  // Returns the sum of all claims of this process.
  static uint64_t all();

 private:
  uint64_t bytes_ = 0;
};

}  // namespace monolith
