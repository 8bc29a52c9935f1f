// How the pool's threads find work and wait:
//
//   owner:  write the section, open the gate, epoch += 1, wake sleepers, do its
//   share, close the gate,
//           wait until no worker is inside
//   worker: wait for a new epoch; if the gate is open, enter, do its share,
//   leave
//
// The gate is a single word with an open bit and the number of workers inside,
// so entering and closing cannot race. The section is written only while the
// gate is closed and no worker is inside.
//
// Every wait has three stages. A thread first spins with `pause`, because the next section usually follows within
// microseconds. It then yields, because the thread that it waits for may need this core. Finally, it parks on a futex
// (std::atomic::wait), which costs no CPU time. The first two stages are bounded because a hypervisor may deschedule a
// virtual core at any time.
#include "base/thread_pool.h"

#include <algorithm>
#include <cassert>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace monolith {
namespace {

// About 20 us of spinning and a little over 100 us of yielding on a 3.7 GHz Zen
// 4 (a pause takes about 40 cycles, a yield at least 0.3 us). That is longer
// than the gap between two sections of a step, but too short to show up as CPU
// load.
constexpr int kSpinsInStep = 2000;
constexpr int kYieldsInStep = 400;
// Between steps, the engine samples and publishes results. Threads that have
// parked by then are woken by the next section.
constexpr int kSpinsOutside = 500;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

// The indices that a thread still has to process in parallel_runs(): begin and
// end, packed into one word. The owning thread takes indices from the front;
// other threads steal the back half. Each index is in only one range at a time,
// so compare-exchange cannot suffer from the ABA problem. Only the owning
// thread refills its range when it is empty.
struct alignas(64) Range {
  std::atomic<uint64_t> word{0};

  static constexpr uint64_t pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }
  static constexpr int64_t begin(uint64_t word) { return static_cast<int64_t>(word >> 32); }
  static constexpr int64_t end(uint64_t word) { return static_cast<int64_t>(word & 0xffffffff); }
  static constexpr int64_t left(uint64_t word) { return end(word) - begin(word); }
};

struct ThreadPool::State {
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  // The current section. A thread may read it only while inside the gate.
  Erased function = nullptr;
  const void* context = nullptr;
  std::vector<std::thread> workers;
  std::unique_ptr<Range[]> ranges;  // Indexed by thread.
  // Each word has its own cache line because different threads poll them.
  alignas(64) std::atomic<int> epoch{0};
  alignas(64) std::atomic<uint32_t> gate{0};  // The open bit kOpen and the number of workers inside.
  alignas(64) std::atomic<int> wake{0};       // Changed in order to wake sleepers.
  alignas(64) std::atomic<int> sleepers{0};
  alignas(64) std::atomic<bool> owner_parked{false};
  std::atomic<bool> in_step{false};
  std::atomic<bool> stop{false};

  void wake_sleepers() {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    wake.fetch_add(1, std::memory_order_seq_cst);
    wake.notify_all();
  }

  // Returns the new epoch.
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
      // The worker registers as a sleeper before it checks the epoch one last
      // time. So either this load sees the new section, or the owner, which
      // reads `sleepers` after storing the epoch, sees the worker and changes
      // `wake`.
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
      gate.notify_one();  // The gate is closed, and this was the last worker
                          // inside.
  }

  void work(int thread) {
    for (int seen = 0;;) {
      seen = wait_for_epoch_after(seen);
      if (stop.load(std::memory_order_relaxed)) return;
      if (!enter()) continue;  // Too late: the other threads have finished the section.
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

ThreadPool::ThreadPool(int n_threads, ThreadPlacement placement)
    : placement_(std::move(placement)), state_(std::make_unique<State>()) {
  if (placement_.nodes.size() > NodeShares::kMaxNodes) placement_.nodes.clear();
  n_nodes_ = std::max(1, static_cast<int>(placement_.nodes.size()));
  first_threads_[1] = n_threads;
  for (size_t node = 0; node < placement_.nodes.size(); ++node)
    first_threads_[node + 1] = first_threads_[node] + placement_.nodes[node].n_threads;
  assert(first_threads_[static_cast<size_t>(n_nodes_)] == n_threads);
  state_->ranges = std::make_unique<Range[]>(static_cast<size_t>(n_threads));
  for (int thread = 1; thread < n_threads; ++thread) {
    try {
      const int node = n_nodes_ > 1 ? node_of(thread) : -1;
      state_->workers.emplace_back([this, state = state_.get(), thread, node] {
#if defined(__linux__)
        pthread_setname_np(pthread_self(), "monolith-cpu");
#endif
        if (node >= 0) bind_to_node(node);
        state->work(thread);
      });
    } catch (const std::system_error&) {
      break;  // Reached the system's thread limit. size() returns the actual
              // number.
    }
  }
  if (size() == n_threads) return;
  // Some nodes may be left without threads, so all threads are treated as one node.
  n_nodes_ = 1;
  first_threads_[1] = size();
}

// The system may refuse, for example in a container that was moved to other
// processors. The thread then runs anywhere.
void ThreadPool::bind_to_node(int node) const {
#if defined(__linux__)
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int cpu : placement_.nodes[static_cast<size_t>(node)].cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
#else
  static_cast<void>(node);
#endif
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_relaxed);
  state_->announce();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const { return static_cast<int>(state_->workers.size()) + 1; }

// Does not wake any workers: a step that is too small to be split should not disturb the other cores.
void ThreadPool::begin_step() {
  if (n_nodes_ > 1 && bound_ != std::this_thread::get_id()) {
    bind_to_node(0);
    bound_ = std::this_thread::get_id();
  }
  state_->in_step.store(true, std::memory_order_relaxed);
}

void ThreadPool::end_step() { state_->in_step.store(false, std::memory_order_relaxed); }

void ThreadPool::split_budget(const NodeShares& shares) {
  assert(shares.n_nodes() == n_nodes_);
  for (int node = 0; node < n_nodes_; ++node) {
    const int first = first_threads_[static_cast<size_t>(node)];
    const int threads = first_threads_[static_cast<size_t>(node) + 1] - first;
    const int64_t begin = shares.begin(node), n = shares.end(node) - begin;
    for (int i = 0; i < threads; ++i) {
      const int64_t from = begin + n * i / threads, to = begin + n * (i + 1) / threads;
      state_->ranges[static_cast<size_t>(first + i)].word.store(
          Range::pack(static_cast<uint64_t>(from), static_cast<uint64_t>(to)), std::memory_order_relaxed);
    }
  }
}

// Takes up to kMaxTaken indices of the thread's own range per atomic operation, but at most an eighth of the remaining
// ones. Because an atomic operation waits for all outstanding loads, taking indices one by one is slower (by 2% in
// single-stream decoding on Zen 5, with 19 KiB per index). Relaxed memory order suffices because the gate publishes the
// data before and after the section.
ThreadPool::Pieces ThreadPool::take(int thread) {
  constexpr auto relaxed = std::memory_order_relaxed;
  std::atomic<uint64_t>& own = state_->ranges[static_cast<size_t>(thread)].word;
  for (uint64_t seen = own.load(relaxed); Range::left(seen) > 0;) {
    const int64_t n = std::clamp<int64_t>(Range::left(seen) / 8, 1, kMaxTaken);
    if (own.compare_exchange_weak(seen, seen + Range::pack(static_cast<uint64_t>(n), 0), relaxed))
      return {Range::begin(seen), Range::begin(seen) + n};
  }
  // A thread steals from its own node first.
  const int node = node_of(thread), n_threads = first_threads_[static_cast<size_t>(n_nodes_)];
  int first = first_threads_[static_cast<size_t>(node)], last = first_threads_[static_cast<size_t>(node) + 1];
  for (;;) {
    std::atomic<uint64_t>* richest = nullptr;
    uint64_t most = 0;
    for (int other = first; other < last; ++other) {
      std::atomic<uint64_t>& range = state_->ranges[static_cast<size_t>(other)].word;
      if (const uint64_t seen = range.load(relaxed); Range::left(seen) > Range::left(most)) {
        richest = &range;
        most = seen;
      }
    }
    if (richest == nullptr) {
      if (last - first == n_threads) return {};
      first = 0;
      last = n_threads;
      continue;
    }
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

void use_process_affinity() {
#if defined(__linux__)
  // The main thread, whose thread ID equals the process ID, is never an engine thread.
  cpu_set_t cpus;
  if (sched_getaffinity(getpid(), sizeof cpus, &cpus) == 0) sched_setaffinity(0, sizeof cpus, &cpus);
#endif
}

void lower_priority(int by) {
#if defined(__linux__)
  // Affects only this thread, because on Linux the nice value is per thread.
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, thread, std::min(getpriority(PRIO_PROCESS, thread) + by, 19));
#else
  static_cast<void>(by);
#endif
}

}  // namespace monolith
