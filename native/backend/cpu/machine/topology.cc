#include "backend/cpu/machine/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

#include "backend/cpu/machine/numa.h"

namespace monolith {
namespace {

constexpr int kMaxCpu = 8191;  // The most that Linux supports on x86.

// Returns the first line of a small file in /sys, or an empty string if there is no such file.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view list) {
  while (!list.empty() && (list.back() == '\n' || list.back() == ' ')) list.remove_suffix(1);
  std::vector<int> cpus;
  while (!list.empty()) {
    const std::string_view range = list.substr(0, list.find(','));
    const char* const end = range.data() + range.size();
    int low = 0, high = 0;
    auto [at, error] = std::from_chars(range.data(), end, low);
    if (error != std::errc()) return {};
    high = low;
    if (at != end) {
      if (*at != '-') return {};
      const auto [after, second_error] = std::from_chars(at + 1, end, high);
      if (second_error != std::errc() || after != end) return {};
    }
    if (low < 0 || high < low || high > kMaxCpu) return {};
    for (int cpu = low; cpu <= high; ++cpu) cpus.push_back(cpu);
    list.remove_prefix(range.size());
    if (list.empty()) break;
    list.remove_prefix(1);
    if (list.empty()) return {};  // A trailing comma is invalid.
  }
  return cpus;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
#endif
  return cpus;
}

CpuTopology read_topology(const std::vector<int>& cpus, const std::string& root) {
  CpuTopology topology;
  const std::string nodes = root + "/sys/devices/system/node/";
  topology.memory_nodes = parse_node_list(first_line(nodes + "has_memory"));
  std::map<int, int> node_of;
  for (const int node : parse_cpu_list(first_line(nodes + "online")))
    for (const int cpu : parse_cpu_list(first_line(nodes + "node" + std::to_string(node) + "/cpulist")))
      node_of[cpu] = node;
  // Hardware threads of the same core list the same siblings.
  std::map<std::string, CpuTopology::Core> by_siblings;
  for (const int cpu : cpus) {
    const std::string name = std::to_string(cpu);
    const std::string siblings =
        first_line(root + "/sys/devices/system/cpu/cpu" + name + "/topology/thread_siblings_list");
    CpuTopology::Core& core = by_siblings[siblings.empty() ? name : siblings];
    const auto node = node_of.find(cpu);
    core.node = node == node_of.end() ? 0 : node->second;
    core.cpus.push_back(cpu);
  }
  for (auto& [siblings, core] : by_siblings) {
    std::ranges::sort(core.cpus);
    topology.cores.push_back(std::move(core));
  }
  std::ranges::sort(topology.cores, {},
                    [](const CpuTopology::Core& core) { return std::pair(core.node, core.cpus.front()); });
  return topology;
}

ThreadPlacement place_threads(const CpuTopology& topology, int n_threads) {
  ThreadPlacement placement;
  for (const CpuTopology::Core& core : topology.cores) {
    if (core.node > 63 || (topology.memory_nodes >> core.node & 1) == 0) return {};
    if (placement.nodes.empty() || placement.nodes.back().id != core.node)
      placement.nodes.push_back({.id = core.node, .n_threads = 0, .cpus = {}});
    ThreadPlacement::Node& node = placement.nodes.back();
    node.cpus.insert(node.cpus.end(), core.cpus.begin(), core.cpus.end());
    node.n_threads += 1;  // Counts cores until the threads are distributed below.
  }
  uint64_t with_cores = 0;
  for (const ThreadPlacement::Node& node : placement.nodes) with_cores |= uint64_t{1} << node.id;
  if (placement.nodes.size() < 2 || with_cores != topology.memory_nodes) return {};
  // Rounds the cumulative shares rather than each node's share, so that the nodes' thread counts add up to n_threads.
  const auto n_cores = static_cast<int64_t>(topology.cores.size());
  int64_t cores = 0, threads = 0;
  for (ThreadPlacement::Node& node : placement.nodes) {
    cores += node.n_threads;
    const int64_t up_to = (cores * n_threads + n_cores / 2) / n_cores;
    node.n_threads = static_cast<int>(up_to - threads);
    threads = up_to;
    if (node.n_threads == 0) return {};
    std::ranges::sort(node.cpus);
  }
  return placement;
}

}  // namespace monolith
