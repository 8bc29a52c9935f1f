// The limits that Linux control groups (v1, v2 or both) impose on this process. Safe to call from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace monolith {

// The smallest limits on the path from the process's cgroup to the root of the hierarchy. A field keeps its maximum
// value if no cgroup sets a limit.
struct GroupLimits {
  int processors = std::numeric_limits<int>::max();  // CPU quota, rounded up.
  // Minimum of memory.max, memory.high and memory.limit_in_bytes.
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
  // The part of memory_bytes that is still available. Page cache counts as free.
  uint64_t free_memory_bytes = std::numeric_limits<uint64_t>::max();
};

// `root` is prepended to every path that is read, so that tests can supply their own files.
GroupLimits group_limits(const std::string& root = "");

// Number of processors that this process can use: the size of its affinity mask, limited by the CPU quota. At least 1.
int usable_processors();

}  // namespace monolith
