#include "base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "base/control_group.h"

namespace monolith {
namespace {

uint64_t bytes_from(int pages_name) {
  const long pages = sysconf(pages_name), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

std::atomic<uint64_t> claimed{0};

}  // namespace

MachineMemory machine_memory(const std::string& root) {
  MachineMemory memory;
  std::ifstream file(root + "/proc/meminfo");  // Lines such as "MemTotal:  1024 kB".
  uint64_t kilobytes = 0, commit_limit = 0, committed = 0;
  for (std::string name, unit; file >> name >> kilobytes && std::getline(file, unit);) {
    if (name == "MemTotal:") memory.total = kilobytes << 10;
    if (name == "MemAvailable:") memory.available = kilobytes << 10;
    if (name == "CommitLimit:") commit_limit = kilobytes << 10;
    if (name == "Committed_AS:") committed = kilobytes << 10;
  }
  if (memory.total == 0) memory.total = bytes_from(_SC_PHYS_PAGES);
  // With systemd's ProcSubset=pid, /proc contains only process directories, so the file may be missing.
  if (memory.available == 0) memory.available = bytes_from(_SC_AVPHYS_PAGES);
  // With strict overcommit accounting, reserved address space counts as used memory even before it is touched.
  int overcommit = 0;
  if (std::ifstream(root + "/proc/sys/vm/overcommit_memory") >> overcommit && overcommit == 2 && commit_limit > 0)
    memory.available = std::min(memory.available, commit_limit - std::min(commit_limit, committed));
  const GroupLimits limits = group_limits(root);
  memory.total = memory.total == 0 ? (limits.memory_bytes == UINT64_MAX ? 0 : limits.memory_bytes)
                                   : std::min(memory.total, limits.memory_bytes);
  memory.available = std::min({memory.available, memory.total, limits.free_memory_bytes});
  return memory;
}

void MemoryClaim::set(uint64_t bytes) {
  claimed.fetch_add(bytes - bytes_, std::memory_order_relaxed);  // Modulo 2^64, so this can also subtract.
  bytes_ = bytes;
}

uint64_t MemoryClaim::all() { return claimed.load(std::memory_order_relaxed); }

}  // namespace monolith
