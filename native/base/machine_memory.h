// Memory that this process may use, and memory that it has already planned to use. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace monolith {

// The machine's memory, limited by control groups.
struct MachineMemory {
  uint64_t total = 0;  // Bytes; 0 = unknown.
  // Bytes of `total` that can be allocated now without swapping. The page cache counts as free.
  uint64_t available = 0;
};

// `root`: as in group_limits().
MachineMemory machine_memory(const std::string& root = "");

// Memory that this process has planned but not touched yet. The kernel still counts it as free, but later plans must
// not use it. One claim per plan, owned by one thread at a time. Any thread may read the sum.
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
