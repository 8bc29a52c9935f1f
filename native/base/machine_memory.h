// The memory that this process may use, and the memory that it has already planned to use. Safe to call from any
// thread.
#pragma once

#include <cstdint>
#include <string>

namespace monolith {

// The machine's memory, limited by cgroups.
struct MachineMemory {
  uint64_t total = 0;  // Bytes; 0 = unknown.
  // Bytes of `total` that can be allocated now without swapping. Page cache counts as free.
  uint64_t available = 0;
};

// `root` has the same meaning as in group_limits().
MachineMemory machine_memory(const std::string& root = "");

// Memory that this process has planned to use but not touched yet. The kernel still counts it as free, but later plans
// must not use it. There is one claim per plan, owned by one thread at a time. Any thread may read the sum of all
// claims.
class MemoryClaim {
 public:
  explicit MemoryClaim(uint64_t bytes = 0) { set(bytes); }
  ~MemoryClaim() { set(0); }
  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

  // Sets the number of bytes that have not been touched yet.
  void set(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }

  // Returns the sum of all claims in this process.
  static uint64_t all();

 private:
  uint64_t bytes_ = 0;
};

}  // namespace monolith
