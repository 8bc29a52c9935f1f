// How the pool's threads find work and wait.
//
//   owner:  write section, open the gate, epoch += 1, wake sleepers, do its share, close the gate,
//           wait until nobody is inside
//   worker: wait for another epoch; if the gate is open, enter, do its share, leave
//
// The gate is one word, an open bit and the number of workers inside, so that entering and closing
// cannot miss each other. The section is only written while the gate is closed and nobody is inside.
//
// Every wait goes through three stages: spin with `pause` (a neighbour section follows within
// microseconds), then yield (this thread's core may be wanted by the very thread it waits for), then
// park on a futex (std::atomic::wait), where it costs nothing. Virtual cores are taken away without
// notice, so no stage before the last may be unbounded.
#include "base/thread_pool.h"

#include <algorithm>
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
// Between steps the engine samples and publishes; the next section wakes whoever has parked by then.
constexpr int kSpinsOutside = 500;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

// What a thread of parallel_runs() has left, in one word: the first piece and the one after the last. Its thread
// takes from the front, others the half at the back. Each piece is in one range at a time, so a range that is found
// again is this very one. An empty range is only changed by its thread.
struct alignas(64) Range {
  std::atomic<uint64_t> word{0};

  static constexpr uint64_t pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }
  static constexpr int64_t begin(uint64_t word) { return static_cast<int64_t>(word >> 32); }
  static constexpr int64_t end(uint64_t word) { return static_cast<int64_t>(word & 0xffffffff); }
  static constexpr int64_t left(uint64_t word) { return end(word) - begin(word); }
};

struct ThreadPool::State {
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  // One section, valid inside the gate.
  Erased function = nullptr;
  const void* context = nullptr;
  std::vector<std::thread> workers;
  std::unique_ptr<Range[]> ranges;  // by thread
  // Each word on its own cache line: they are polled by different threads.
  alignas(64) std::atomic<int> epoch{0};
  alignas(64) std::atomic<uint32_t> gate{0};  // kOpen, and the workers inside
  alignas(64) std::atomic<int> wake{0};       // changes to wake sleepers
  alignas(64) std::atomic<int> sleepers{0};
  alignas(64) std::atomic<bool> owner_parked{false};
  std::atomic<bool> in_step{false};
  std::atomic<bool> stop{false};

  void wake_sleepers() {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    wake.fetch_add(1, std::memory_order_seq_cst);
    wake.notify_all();
  }

  // Returns the epoch found.
  int wait_for_epoch_after(int seen) {
    for (;;) {
      const bool step = in_step.load(std::memory_order_relaxed);
      const int spins = step ? kSpinsInStep : kSpinsOutside;
      for (int i = 0; i < spins; ++i) {
        if (const int now = epoch.load(std::memory_order_acquire); now != seen) return now;
        pause_briefly();
      }
      for (int i = 0; step && i < kYieldsInStep; ++i) {
        if (const int now = epoch.load(std::memory_order_acquire); now != seen) return now;
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

  bool enter() {
    uint32_t seen = gate.load(std::memory_order_relaxed);
    while ((seen & kOpen) != 0) {
      if (gate.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  void leave() {
    if (gate.fetch_sub(1, std::memory_order_seq_cst) == 1 && owner_parked.load(std::memory_order_seq_cst))
      gate.notify_one();  // closed, and this was the last
  }

  void work(int thread) {
    for (int seen = 0;;) {
      seen = wait_for_epoch_after(seen);
      if (stop.load(std::memory_order_relaxed)) return;
      if (!enter()) continue;  // too late: the others have done it
      function(context, thread);
      leave();
    }
  }

  void close_and_wait() {
    if (gate.fetch_and(~kOpen, std::memory_order_acq_rel) == kOpen) return;
    for (int i = 0; i < kSpinsInStep; ++i) {
      if (gate.load(std::memory_order_acquire) == 0) return;
      pause_briefly();
    }
    for (int i = 0; i < kYieldsInStep; ++i) {
      if (gate.load(std::memory_order_acquire) == 0) return;
      std::this_thread::yield();
    }
    owner_parked.store(true, std::memory_order_seq_cst);
    for (uint32_t inside; (inside = gate.load(std::memory_order_seq_cst)) != 0;) gate.wait(inside);
    owner_parked.store(false, std::memory_order_relaxed);
  }

  void announce() {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    wake_sleepers();
  }
};

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  state_->ranges = std::make_unique<Range[]>(static_cast<size_t>(n_threads));
  for (int thread = 1; thread < n_threads; ++thread) {
    try {
      state_->workers.emplace_back([state = state_.get(), thread] {
#if defined(__linux__)
        pthread_setname_np(pthread_self(), "monolith-cpu");
#endif
        state->work(thread);
      });
    } catch (const std::system_error&) {
      break;  // the system's thread limit: size() tells how many there are
    }
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_relaxed);
  state_->announce();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()) + 1; }

// Wakes nobody: a step too small to be shared out should not cost the other cores anything.
void ThreadPool::begin_step() { state_->in_step.store(true, std::memory_order_relaxed); }

void ThreadPool::end_step() { state_->in_step.store(false, std::memory_order_relaxed); }

void ThreadPool::share_out(int64_t n) {
  const auto pieces = static_cast<uint64_t>(n), threads = static_cast<uint64_t>(size());
  for (uint64_t thread = 0; thread < threads; ++thread) {
    const uint64_t share = Range::pack(pieces * thread / threads, pieces * (thread + 1) / threads);
    state_->ranges[thread].word.store(share, std::memory_order_relaxed);
  }
}

// Several of its own at once while they are at most an eighth of its share: whoever takes waits for all that is on its way
// from memory (Zen 5, pieces of 19 KiB: 2 % of a stream's time).
// Relaxed throughout: a piece's data is published by the gate, before and after the section.
ThreadPool::Pieces ThreadPool::take(int thread) {
  constexpr auto relaxed = std::memory_order_relaxed;
  std::atomic<uint64_t>& own = state_->ranges[static_cast<size_t>(thread)].word;
  for (uint64_t seen = own.load(relaxed); Range::left(seen) > 0;) {
    const int64_t n = std::clamp<int64_t>(Range::left(seen) / 8, 1, kMostTaken);
    if (own.compare_exchange_weak(seen, seen + Range::pack(static_cast<uint64_t>(n), 0), relaxed))
      return {Range::begin(seen), Range::begin(seen) + n};
  }
  for (;;) {
    std::atomic<uint64_t>* richest = nullptr;
    uint64_t most = 0;
    for (int other = 0; other < size(); ++other) {
      std::atomic<uint64_t>& range = state_->ranges[static_cast<size_t>(other)].word;
      if (const uint64_t seen = range.load(relaxed); Range::left(seen) > Range::left(most)) {
        richest = &range;
        most = seen;
      }
    }
    if (richest == nullptr) return {};
    const int64_t end = Range::end(most), from = end - (Range::left(most) + 1) / 2;
    const uint64_t kept = Range::pack(static_cast<uint64_t>(Range::begin(most)), static_cast<uint64_t>(from));
    if (!richest->compare_exchange_strong(most, kept, relaxed)) continue;
    own.store(Range::pack(static_cast<uint64_t>(from) + 1, static_cast<uint64_t>(end)), relaxed);
    return {from, from + 1};
  }
}

void ThreadPool::run(Erased fn, const void* context) {
  state_->function = fn;
  state_->context = context;
  state_->gate.store(State::kOpen, std::memory_order_release);
  state_->announce();
  fn(context, 0);
  state_->close_and_wait();
}

}  // namespace monolith
