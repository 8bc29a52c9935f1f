// Memory that this process has planned and not touched yet: the kernel still counts it as free, and plans made later must not.
#pragma once

#include <cstdint>

namespace monolith {

// One plan's part. Owned by one thread at a time; the sum may be read by any.
class MemoryClaim {
 public:
  explicit MemoryClaim(uint64_t bytes = 0) { set(bytes); }
  ~MemoryClaim() { set(0); }
  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

  // Bytes that are still to be touched.
  void set(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }

  // The sum of all claims of this process.
  static uint64_t all();

 private:
  uint64_t bytes_ = 0;
};

}  // namespace monolith
