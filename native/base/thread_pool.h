// Threads that run one function together and wait for each other: the CPU backend's parallel section.
// One owner (the engine thread) calls run(); it takes part as thread 0. Workers spin briefly between
// sections of one step and park when idle. Nothing is allocated by run().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace monolith {

class ThreadPool {
 public:
  // `n_threads` >= 1 counts the caller. n_threads == 1 starts no thread.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Calls fn(thread_index) once on each thread, 0 .. size()-1; returns when all calls have returned.
  template <typename Fn>
  void run(Fn&& fn) {
    auto* target = std::addressof(fn);
    run_erased([](void* f, int thread) { (*static_cast<std::remove_reference_t<Fn>*>(f))(thread); }, target);
  }

  // Calls fn(begin, end, thread) over [0, n) in pieces of `grain`, handed out dynamically: which thread
  // takes a piece is not fixed, so a piece's result must not depend on it.
  template <typename Fn>
  void parallel_for(int64_t n, int64_t grain, Fn&& fn) {
    next_.store(0, std::memory_order_relaxed);
    if (n <= grain) {
      if (n > 0) fn(int64_t{0}, n, 0);
      return;
    }
    run([&](int thread) {
      for (;;) {
        const int64_t begin = next_.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) return;
        fn(begin, begin + grain < n ? begin + grain : n, thread);
      }
    });
  }

  // Hint that a step begins or ends: between the two, workers spin instead of parking.
  void begin_step();
  void end_step();

 private:
  using Erased = void (*)(void*, int);
  void run_erased(Erased fn, void* context);
  struct State;
  std::unique_ptr<State> state_;
  alignas(64) std::atomic<int64_t> next_{0};
};

}  // namespace monolith
