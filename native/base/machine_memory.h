// Memory that this process may use: the machine's, limited by its control groups. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace monolith {

struct MachineMemory {
  uint64_t total = 0;      // bytes; 0 = unknown
  uint64_t available = 0;  // of `total`: bytes that can be taken now without swapping; the page cache counts as free
};

// `root`: as in group_limits().
MachineMemory machine_memory(const std::string& root = "");

}  // namespace monolith
