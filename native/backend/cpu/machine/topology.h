// The processor's cores and NUMA nodes (sockets, or parts of one), as reported by Linux in /sys, and the distribution
// of threads over them. Safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"

namespace monolith {

struct CpuTopology {
  struct Core {
    int node;               // NUMA node; 0 if the system shows no nodes.
    std::vector<int> cpus;  // The core's hardware threads on which this process may run.
  };
  std::vector<Core> cores;    // In ascending order of the node, then of the first hardware thread.
  uint64_t memory_nodes = 0;  // Bit i is set if node i has memory; 0 if the system shows no nodes.
};

// Parses a list of numbers in the format used in /sys, such as "0-2,8". Returns an empty list if it is malformed or
// contains a number above 8191.
std::vector<int> parse_cpu_list(std::string_view list);

// The hardware threads on which the calling thread may run. Empty if the system does not report them.
std::vector<int> allowed_cpus();

// Reads the topology of the given hardware threads. `root` is prepended to every path that is read, so that tests can
// supply their own files. If the system does not report which hardware threads share a core, each one counts as a core.
CpuTopology read_topology(const std::vector<int>& cpus, const std::string& root = "");

// Distributes threads over the NUMA nodes in proportion to their cores; the threads of a node may run on all of its
// cores. If a node with memory would get no thread, or a core does not belong to a node with memory, the result is
// empty. Threads are then not bound to nodes, and memory is interleaved over all nodes.
ThreadPlacement place_threads(const CpuTopology& topology, int n_threads);

}  // namespace monolith
