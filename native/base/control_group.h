// Limits that Linux control groups put on this process. Versions 1 and 2, also side by side. Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace monolith {

// The smallest limits along the path from the process's group to the root of the hierarchy. A member keeps its largest
// value where no group limits it.
struct GroupLimits {
  int processors = std::numeric_limits<int>::max();  // CPU quota, rounded up
  // memory.max, memory.high, memory.limit_in_bytes
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
  // of memory_bytes; the page cache counts as free
  uint64_t free_memory_bytes = std::numeric_limits<uint64_t>::max();
};

// `root` is prepended to every path that is read; tests pass a folder of their own.
GroupLimits group_limits(const std::string& root = "");

// Processors that this process can keep busy: its affinity mask, limited by the CPU quota. At least 1.
int usable_processors();

}  // namespace monolith
