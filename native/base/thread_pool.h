// The thread pool for the parallel loops of the CPU backend. Its owner, the engine thread, calls parallel_for() and
// takes part as thread 0. Workers join in while there is work left. The owner never waits for a worker that has not
// started: a worker that is asleep or whose core is busy simply does not help. Workers spin briefly between the
// sections of a step and park when idle. Nothing is allocated after construction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace monolith {

class ThreadPool {
 public:
  // `n_threads` >= 1 includes the calling thread, so a pool with n_threads == 1 starts no threads.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

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

  // Calls fn(i, thread) for each i in [0, n), where n is below 2^31. For loops over contiguous memory: each thread
  // starts at its own share of [0, n) and proceeds in order, so the hardware prefetcher loads what the thread needs
  // next. A thread that has finished takes half of the largest remaining share, so here too, the assignment of indices
  // to threads is not fixed. If a thread is delayed, the others wait for at most kMaxTaken of its indices.
  static constexpr int64_t kMaxTaken = 8;
  template <typename Fn>
  void parallel_runs(int64_t n, Fn&& fn) {
    if (size() == 1 || n == 1) {
      for (int64_t i = 0; i < n; ++i) fn(i, 0);
      return;
    }
    if (n <= 0) return;
    split_budget(n);
    const auto take_pieces = [&](int thread) {
      for (Pieces pieces; (pieces = take(thread)).begin < pieces.end;)
        for (int64_t i = pieces.begin; i < pieces.end; ++i) fn(i, thread);
    };
    run([](const void* f, int thread) { (*static_cast<const decltype(take_pieces)*>(f))(thread); }, &take_pieces);
  }

  // Hints that a step begins or ends. During a step, workers spin longer before they park.
  void begin_step();
  void end_step();

 private:
  using Erased = void (*)(const void*, int);
  // Calls fn(context, 0), and fn(context, thread) on each worker that arrives before that call returns. A worker may
  // call it twice.
  void run(Erased fn, const void* context);
  void split_budget(int64_t n);
  struct Pieces {
    int64_t begin = 0, end = 0;
  };
  Pieces take(int thread);  // Returns the thread's next range of indices; empty if no work is left.
  struct State;
  std::unique_ptr<State> state_;
  alignas(64) std::atomic<int64_t> next_{0};
};

// Permanently lowers the calling thread's priority. Has no effect on systems without per-thread priorities.
// `by`: amount added to the thread's nice value, up to the maximum of 19.
void lower_priority(int by = 10);

}  // namespace monolith
