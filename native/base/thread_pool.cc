// How the pool's threads find work and wait.
//
//   owner:  write section, epoch += 1, wake sleepers, do its share, wait until pending == 0
//   worker: wait for a new epoch, do its share, pending -= 1
//
// Every wait goes through three stages: spin with `pause` (a neighbour section follows within
// microseconds), then yield (this thread's core may be wanted by the very thread it waits for), then
// park on a futex (std::atomic::wait), where it costs nothing. Virtual cores are taken away without
// notice, so no stage before the last may be unbounded.
#include "base/thread_pool.h"

#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#endif

namespace monolith {
namespace {

// About 20 us and a little over 100 us on a 3.7 GHz Zen 4 (a pause is some 40 cycles, a yield 0.3 us or
// more): longer than the gap between two sections of a step, shorter than anyone would notice as load.
constexpr int kSpinsInStep = 2000;
constexpr int kYieldsInStep = 400;
// Between steps the engine samples and publishes; begin_step() wakes whoever has parked by then.
constexpr int kSpinsOutside = 500;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

struct ThreadPool::State {
  // One section, valid while epoch says so.
  Erased function = nullptr;
  void* context = nullptr;
  std::vector<std::thread> workers;
  // Each word on its own cache line: they are polled by different threads.
  alignas(64) std::atomic<int> epoch{0};
  alignas(64) std::atomic<int> pending{0};       // workers that have not finished the section
  alignas(64) std::atomic<int> wake{0};          // changes to wake sleepers
  alignas(64) std::atomic<int> sleepers{0};
  alignas(64) std::atomic<bool> owner_parked{false};
  std::atomic<bool> in_step{false};
  std::atomic<bool> stop{false};

  void wake_sleepers() {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    wake.fetch_add(1, std::memory_order_seq_cst);
    wake.notify_all();
  }

  void wait_for_epoch_after(int seen) {
    for (;;) {
      const bool step = in_step.load(std::memory_order_relaxed);
      const int spins = step ? kSpinsInStep : kSpinsOutside;
      for (int i = 0; i < spins; ++i) {
        if (epoch.load(std::memory_order_acquire) != seen) return;
        pause_briefly();
      }
      for (int i = 0; step && i < kYieldsInStep; ++i) {
        if (epoch.load(std::memory_order_acquire) != seen) return;
        std::this_thread::yield();
      }
      // Announced as a sleeper before the last look at epoch: either this load sees the new section, or
      // the owner's look at `sleepers`, after its store to epoch, sees us and changes `wake`.
      const int ticket = wake.load(std::memory_order_seq_cst);
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      if (epoch.load(std::memory_order_seq_cst) == seen) wake.wait(ticket);
      sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  void work(int thread) {
    int seen = 0;
    for (;;) {
      wait_for_epoch_after(seen);
      ++seen;   // the owner waits for all workers before the next section: none is ever skipped
      if (stop.load(std::memory_order_relaxed)) return;
      function(context, thread);
      if (pending.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
          owner_parked.load(std::memory_order_seq_cst))
        pending.notify_one();
    }
  }

  void wait_until_done() {
    for (int i = 0; i < kSpinsInStep; ++i) {
      if (pending.load(std::memory_order_acquire) == 0) return;
      pause_briefly();
    }
    for (int i = 0; i < kYieldsInStep; ++i) {
      if (pending.load(std::memory_order_acquire) == 0) return;
      std::this_thread::yield();
    }
    owner_parked.store(true, std::memory_order_seq_cst);
    for (int left; (left = pending.load(std::memory_order_seq_cst)) != 0;) pending.wait(left);
    owner_parked.store(false, std::memory_order_relaxed);
  }

  void start_section() {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    wake_sleepers();
  }
};

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  for (int thread = 1; thread < n_threads; ++thread) {
    try {
      state_->workers.emplace_back([state = state_.get(), thread] {
#if defined(__linux__)
        pthread_setname_np(pthread_self(), "monolith-cpu");
#endif
        state->work(thread);
      });
    } catch (const std::system_error&) {
      break;   // the system's thread limit: size() tells how many there are
    }
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_relaxed);
  state_->start_section();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::begin_step() {
  state_->in_step.store(true, std::memory_order_relaxed);
  state_->wake_sleepers();
}

void ThreadPool::end_step() { state_->in_step.store(false, std::memory_order_relaxed); }

void ThreadPool::run_erased(Erased fn, void* context) {
  const int workers = static_cast<int>(state_->workers.size());
  if (workers == 0) return fn(context, 0);
  state_->function = fn;
  state_->context = context;
  state_->pending.store(workers, std::memory_order_relaxed);
  state_->start_section();
  fn(context, 0);
  state_->wait_until_done();
}

}  // namespace monolith
