// The thread pool for the parallel loops of the CPU backend. Its owner, the engine thread, calls parallel_for() and
// takes part as thread 0. Workers join while work is left. The owner never waits for a worker that has not started: a
// worker that is asleep or whose core is busy simply does not help. Workers spin briefly between the sections of a step
// and park when idle. Nothing is allocated after construction.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace monolith {

// The NUMA nodes on which a pool's threads run. Threads are numbered node by node.
struct ThreadPlacement {
  struct Node {
    int id;                 // The system's number.
    int n_threads;          // At least 1.
    std::vector<int> cpus;  // The hardware threads on which the node's threads may run.
  };
  std::vector<Node> nodes = {};  // If empty, the threads may run anywhere and count as one node.
};

// Indices that are divided among NUMA nodes: node k has the indices from the end of node k - 1 to its own end.
class NodeShares {
 public:
  static constexpr int kMaxNodes = 16;
  void add(int64_t n) {
    assert(n_nodes_ < kMaxNodes);
    const int64_t before = all();
    ends_[static_cast<size_t>(n_nodes_++)] = before + n;
  }
  int n_nodes() const { return n_nodes_; }
  int64_t all() const { return n_nodes_ == 0 ? 0 : ends_[static_cast<size_t>(n_nodes_ - 1)]; }
  int64_t begin(int node) const { return node == 0 ? 0 : ends_[static_cast<size_t>(node - 1)]; }
  int64_t end(int node) const { return ends_[static_cast<size_t>(node)]; }

 private:
  int n_nodes_ = 0;
  std::array<int64_t, kMaxNodes> ends_ = {};
};

class ThreadPool {
 public:
  // `n_threads` >= 1 includes the calling thread, so a pool with n_threads == 1 starts no threads. The numbers of
  // threads in `placement`, if it is not empty, must add up to n_threads.
  explicit ThreadPool(int n_threads, ThreadPlacement placement = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  // The nodes of the pool's threads: at least one, and at most NodeShares::kMaxNodes. If there are several, each has
  // a thread.
  int n_nodes() const { return n_nodes_; }
  int node_id(int node) const { return placement_.nodes[static_cast<size_t>(node)].id; }
  // Divides n indices among the nodes in proportion to their numbers of threads, and returns the end of `node`'s share.
  // Returns 0 for node -1.
  int64_t node_end(int node, int64_t n) const {
    return node < 0 ? 0
                    : n * first_threads_[static_cast<size_t>(node) + 1] / first_threads_[static_cast<size_t>(n_nodes_)];
  }
  // Returns the number of threads on the NUMA node of `thread`.
  int threads_on_node_of(int thread) const {
    const auto node = static_cast<size_t>(node_of(thread));
    return first_threads_[node + 1] - first_threads_[node];
  }

  // Calls fn(begin, end, thread) for chunks of `grain` indices that together cover [0, n). Chunks are assigned
  // dynamically, so a chunk's result must not depend on the thread. Returns when all chunks are done.
  template <typename Fn>
  void parallel_for(int64_t n, int64_t grain, Fn&& fn) {
    if (n <= grain || size() == 1) {
      if (n > 0) fn(int64_t{0}, n, 0);
      return;
    }
    next_.store(0, std::memory_order_relaxed);
    const auto take_pieces = [&](int thread) {
      for (;;) {
        const int64_t begin = next_.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) return;
        fn(begin, begin + grain < n ? begin + grain : n, thread);
      }
    };
    run([](const void* f, int thread) { (*static_cast<const decltype(take_pieces)*>(f))(thread); }, &take_pieces);
  }

  // Calls fn(i, thread) for each index of `shares`, which has an entry for each of the pool's nodes. The threads of a
  // node take its indices one after another; a thread whose node has none left helps the other nodes. For loops over
  // memory that is divided among the nodes in the same way.
  template <typename Fn>
  void parallel_by_node(const NodeShares& shares, Fn&& fn) {
    if (shares.n_nodes() == 1 || size() == 1) {
      parallel_for(shares.all(), 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) fn(i, thread);
      });
      return;
    }
    assert(shares.n_nodes() == n_nodes_);
    for (int node = 0; node < n_nodes_; ++node)
      next_of_node_[static_cast<size_t>(node)].index.store(shares.begin(node), std::memory_order_relaxed);
    const auto take_pieces = [&](int thread) {
      const int own = node_of(thread);
      for (int i = 0; i < n_nodes_; ++i) {
        const int node = (own + i) % n_nodes_;
        std::atomic<int64_t>& next = next_of_node_[static_cast<size_t>(node)].index;
        for (int64_t at; (at = next.fetch_add(1, std::memory_order_relaxed)) < shares.end(node);) fn(at, thread);
      }
    };
    run([](const void* f, int thread) { (*static_cast<const decltype(take_pieces)*>(f))(thread); }, &take_pieces);
  }

  // Calls fn(i, thread) for each i in [0, n), where n is below 2^31. For loops over contiguous memory: each thread
  // starts at its own share of [0, n) and proceeds in order, so the hardware prefetcher loads what the thread needs
  // next. A thread that has finished takes half of the largest remaining share of its node, or of another node if its
  // node has none, so here, too, the assignment of indices to threads is not fixed. If a thread is delayed, the other
  // threads wait for at most kMaxTaken of its indices.
  static constexpr int64_t kMaxTaken = 8;
  template <typename Fn>
  void parallel_runs(int64_t n, Fn&& fn) {
    NodeShares shares;
    for (int node = 0; node < n_nodes_; ++node) shares.add(node_end(node, n) - node_end(node - 1, n));
    parallel_runs(shares, fn);
  }

  // Like parallel_runs() above, but for the indices of `shares`, which has an entry for each of the pool's nodes. The
  // threads of a node start with the node's indices.
  template <typename Fn>
  void parallel_runs(const NodeShares& shares, Fn&& fn) {
    const int64_t n = shares.all();
    if (size() == 1 || n == 1) {
      for (int64_t i = 0; i < n; ++i) fn(i, 0);
      return;
    }
    if (n <= 0) return;
    split_budget(shares);
    const auto take_pieces = [&](int thread) {
      for (Pieces pieces; (pieces = take(thread)).begin < pieces.end;)
        for (int64_t i = pieces.begin; i < pieces.end; ++i) fn(i, thread);
    };
    run([](const void* f, int thread) { (*static_cast<const decltype(take_pieces)*>(f))(thread); }, &take_pieces);
  }

  // Hints that a step begins or ends. During a step, workers spin longer before they park. If the pool's threads are
  // bound to nodes, begin_step() permanently binds the calling thread to the first node.
  void begin_step();
  void end_step();

 private:
  using Erased = void (*)(const void*, int);
  // Calls fn(context, 0), and fn(context, thread) on each worker that arrives before that call returns. A worker may
  // call it twice.
  void run(Erased fn, const void* context);
  void split_budget(const NodeShares& shares);
  int node_of(int thread) const {
    int node = 0;
    while (thread >= first_threads_[static_cast<size_t>(node) + 1]) ++node;
    return node;
  }
  void bind_to_node(int node) const;
  struct Pieces {
    int64_t begin = 0, end = 0;
  };
  Pieces take(int thread);  // Returns the thread's next range of indices; empty if no work is left.
  struct State;
  ThreadPlacement placement_;
  int n_nodes_ = 1;
  // The index of each node's first thread, followed by the total number of threads.
  std::array<int, NodeShares::kMaxNodes + 1> first_threads_ = {};
  std::thread::id bound_;  // The owner that was bound to the first node.
  std::unique_ptr<State> state_;
  alignas(64) std::atomic<int64_t> next_{0};
  struct alignas(64) NextOfNode {
    std::atomic<int64_t> index{0};
  };
  std::array<NextOfNode, NodeShares::kMaxNodes> next_of_node_;
};

// Lets the calling thread run on every processor that the process may use. Helper threads of an engine call it, because
// a new thread inherits the affinity of the engine thread, which a ThreadPool may have bound to a NUMA node.
void use_process_affinity();

// Permanently lowers the calling thread's priority. Has no effect on systems without per-thread priorities.
// `by`: amount added to the thread's nice value, up to the maximum of 19.
void lower_priority(int by = 10);

}  // namespace monolith
