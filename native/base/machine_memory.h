// Memory that this process may use: the machine's memory, limited by control groups. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace monolith {

struct MachineMemory {
  uint64_t total = 0;  // Bytes; 0 = unknown.
  // Bytes of `total` that can be allocated now without swapping. The page cache counts as free.
  uint64_t available = 0;
};

// `root`: as in group_limits().
MachineMemory machine_memory(const std::string& root = "");

}  // namespace monolith
