// Tests reading the processor's topology, the distribution of threads over NUMA nodes, and the bits of products on
// several nodes. The topologies are directory trees laid out like the kernel's /sys.
#include "backend/cpu/machine/topology.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/machine/isa.h"
#include "check.h"
#include "matrix_data.h"

using namespace monolith;

namespace {

// A /sys of `nodes` NUMA nodes. Core i of node k has the hardware threads k * cores + i and, with two threads per core,
// nodes * cores + k * cores + i, as on most servers.
class System {
 public:
  System(int nodes, int cores, int threads_per_core = 1) : nodes_(nodes), cores_(cores) {
    std::string name = (std::filesystem::temp_directory_path() / "monolith-topology-XXXXXX").string();
    root_ = mkdtemp(name.data());
    const std::string all = nodes == 1 ? "0" : "0-" + std::to_string(nodes - 1);
    write("node/online", all);
    write("node/has_memory", all);
    for (int node = 0; node < nodes; ++node) {
      std::string cpus;
      for (int i = 0; i < cores; ++i) {
        std::string siblings;
        for (int thread = 0; thread < threads_per_core; ++thread)
          siblings += (thread > 0 ? "," : "") + std::to_string(cpu(node, i, thread));
        for (int thread = 0; thread < threads_per_core; ++thread) {
          write("cpu/cpu" + std::to_string(cpu(node, i, thread)) + "/topology/thread_siblings_list", siblings);
          cpus_.push_back(cpu(node, i, thread));
        }
        cpus += (i > 0 ? "," : "") + siblings;
      }
      write("node/node" + std::to_string(node) + "/cpulist", cpus);
    }
  }
  ~System() { std::filesystem::remove_all(root_); }
  System(const System&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + "/sys/devices/system/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  CpuTopology read() const { return read_topology(cpus_, root_); }
  CpuTopology read(const std::vector<int>& cpus) const { return read_topology(cpus, root_); }

 private:
  int cpu(int node, int core, int thread) const { return thread * nodes_ * cores_ + node * cores_ + core; }
  int nodes_, cores_;
  std::vector<int> cpus_;
  std::string root_;
};

std::vector<std::pair<int, int>> threads_of(const ThreadPlacement& placement) {
  std::vector<std::pair<int, int>> threads;
  for (const ThreadPlacement::Node& node : placement.nodes) threads.emplace_back(node.id, node.n_threads);
  return threads;
}
using Threads = std::vector<std::pair<int, int>>;

// Returns a placement with threads[k] threads on node k. The threads may run on all of this machine's processors.
ThreadPlacement placement_of(const std::vector<int>& threads) {
  ThreadPlacement placement;
  for (size_t node = 0; node < threads.size(); ++node)
    placement.nodes.push_back({.id = static_cast<int>(node), .n_threads = threads[node], .cpus = allowed_cpus()});
  return placement;
}

std::vector<float> product(CpuBackend& backend, std::span<const MatrixSource> sources, const std::vector<float>& x,
                           int n_rows) {
  std::vector<std::unique_ptr<Matrix>> matrices;
  int64_t width = 0;
  for (const MatrixSource& source : sources) {
    auto matrix = backend.matrix(source);
    if (!matrix.ok()) return {};
    matrices.push_back(std::move(*matrix));
    width += source.rows;
  }
  std::vector<float> out(static_cast<size_t>(width * n_rows));
  std::vector<MatmulTarget> targets;
  int64_t before = 0;
  for (const auto& matrix : matrices) {
    targets.push_back({.weight = matrix.get(), .out = out.data() + before, .out_stride = width});
    before += matrix->rows;
  }
  backend.matmul(targets, x.data(), RowCount::fixed(n_rows), InputUse::kLast);
  return out;
}

}  // namespace

TEST(lists_of_processors_are_parsed) {
  CHECK(parse_cpu_list("0\n") == std::vector<int>{0});
  CHECK((parse_cpu_list("0-2,8,100-101") == std::vector<int>{0, 1, 2, 8, 100, 101}));
  for (const char* list : {"", "\n", "x", "-1", "0-", "1-0", "8192", "0,", ",0", "0,,1", "0 1", "0-1-2"})
    CHECK(parse_cpu_list(list).empty());
}

TEST(the_topology_lists_cores_and_their_nodes) {
  const CpuTopology two = System(2, 4, 2).read();
  CHECK_EQ(two.cores.size(), size_t{8});
  CHECK_EQ(two.memory_nodes, uint64_t{3});
  for (size_t i = 0; i < two.cores.size(); ++i) {
    CHECK_EQ(two.cores[i].node, static_cast<int>(i / 4));
    CHECK((two.cores[i].cpus == std::vector<int>{static_cast<int>(i), static_cast<int>(i + 8)}));
  }
  CHECK_EQ(System(1, 6).read().cores.size(), size_t{6});
  // Tests a process that may use only some hardware threads of the second node.
  const CpuTopology some = System(2, 4, 2).read({5, 6, 13});
  REQUIRE(some.cores.size() == 2);
  CHECK(some.cores[0].node == 1 && (some.cores[0].cpus == std::vector<int>{5, 13}));
  CHECK(some.cores[1].node == 1 && some.cores[1].cpus == std::vector<int>{6});
}

TEST(without_a_topology_each_processor_is_a_core) {
  const CpuTopology topology = read_topology({0, 1, 2}, "/nonexistent");
  CHECK_EQ(topology.cores.size(), size_t{3});
  CHECK_EQ(topology.memory_nodes, uint64_t{0});
  CHECK(place_threads(topology, 3).nodes.empty());
}

TEST(the_default_number_of_threads_is_the_number_of_cores) {
  const CpuTopology machine = read_topology(allowed_cpus());
  CHECK(machine.cores.empty() || usable_cores() <= static_cast<int>(machine.cores.size()));
}

TEST(threads_are_distributed_in_proportion_to_cores) {
  const CpuTopology two = System(2, 4, 2).read();
  CHECK((threads_of(place_threads(two, 8)) == Threads{{0, 4}, {1, 4}}));
  CHECK((threads_of(place_threads(two, 16)) == Threads{{0, 8}, {1, 8}}));
  CHECK((threads_of(place_threads(two, 5)) == Threads{{0, 3}, {1, 2}}));
  CHECK((threads_of(place_threads(two, 2)) == Threads{{0, 1}, {1, 1}}));
  CHECK((place_threads(two, 8).nodes[1].cpus == std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15}));
  CHECK((threads_of(place_threads(System(4, 3).read(), 12)) == Threads{{0, 3}, {1, 3}, {2, 3}, {3, 3}}));
  // Two cores of the first node and four of the second.
  CHECK((threads_of(place_threads(System(2, 4).read({0, 1, 4, 5, 6, 7}), 6)) == Threads{{0, 2}, {1, 4}}));
}

TEST(threads_are_not_bound_unless_every_node_with_memory_has_one) {
  CHECK(place_threads(System(1, 8).read(), 8).nodes.empty());
  const System two(2, 4);
  CHECK(place_threads(two.read(), 1).nodes.empty());
  CHECK(place_threads(two.read({0, 1, 2}), 3).nodes.empty());
  CHECK(place_threads(System(4, 4).read(), 3).nodes.empty());
  // The second node has processors but no memory, as on machines on which only one socket has memory.
  two.write("node/has_memory", "0");
  CHECK(place_threads(two.read(), 8).nodes.empty());
  // A third node has memory but no processors.
  two.write("node/has_memory", "0-2");
  CHECK(place_threads(two.read(), 8).nodes.empty());
}

TEST(products_on_several_nodes_have_the_same_bits) {
  constexpr int64_t kCols = 1024;
  // The second matrix has few panels, and the third has fewer panels than there are nodes.
  constexpr int64_t kRows[] = {5000, 200, 20};
  for (const CpuIsa isa : available_cpu_isas()) {
    if (isa == CpuIsa::kPlain) continue;
    for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kF16}) {
      std::vector<std::vector<std::byte>> data;
      std::vector<MatrixSource> sources;
      for (const int64_t rows : kRows) data.push_back(matrix_data(type, rows, kCols, static_cast<uint64_t>(rows)));
      for (size_t i = 0; i < data.size(); ++i) sources.push_back({type, kRows[i], kCols, data[i]});
      Random random(7);
      std::vector<float> x(static_cast<size_t>(100 * kCols));
      for (float& value : x) value = random.uniform();
      CpuBackend single(isa, 1);
      REQUIRE(single.reserve(100, kCols, 16, 16, {}).ok());
      for (const std::vector<int>& threads : {std::vector<int>{1, 1}, {1, 3}, {2, 1, 2}, {1, 1, 1, 1}}) {
        int n_threads = 0;
        for (const int n : threads) n_threads += n;
        CpuBackend several(isa, n_threads, Arithmetic::kProduction, placement_of(threads));
        REQUIRE(several.reserve(100, kCols, 16, 16, {}).ok());
        for (const int n_rows : {1, 3, 17, 100}) {
          const auto expected = product(single, sources, x, n_rows), out = product(several, sources, x, n_rows);
          REQUIRE(!expected.empty() && expected.size() == out.size());
          CHECK(std::memcmp(expected.data(), out.data(), out.size() * sizeof(float)) == 0);
        }
      }
    }
  }
}
