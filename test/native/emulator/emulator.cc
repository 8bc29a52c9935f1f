#include "emulator/emulator.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

#include "backend/cuda/device/tensor.h"

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace monolith::cuda::emulator {

Where where;

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "CUDA emulator: %s (block %u %u %u, thread %u)\n", what, where.block.x, where.block.y,
               where.block.z, where.thread.x);
  std::abort();
}

namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr unsigned kMaxThreads = 1024;

// --- stacks ------------------------------------------------------------------------------------

#if defined(__x86_64__)
// Pushes the caller's registers onto its stack and stores the stack pointer in *save. Then resumes the context whose
// stack pointer is `resume`.
extern "C" void monolith_switch_stack(void** save, void* resume);
asm(R"(
.text
.type monolith_switch_stack, @function
monolith_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size monolith_switch_stack, .-monolith_switch_stack
)");
#endif

struct CopyGroup {
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;  // Number of bytes to copy; the remaining bytes up to 16 are zeroed.
  };
  std::vector<Copy> copies;
};

struct Warp {
  unsigned arrived = 0;
  uint64_t passed = 0;              // Number of warp barriers that this warp has passed.
  std::vector<std::byte> slots[2];  // Buffers for warp exchanges, selected by the parity of `passed`.
};

// A stack, and the context saved on it.
struct Stack {
#if defined(__x86_64__)
  void* top = nullptr;
#else
  ucontext_t context;
#endif
  const void* bottom = nullptr;
  size_t size = 0;
  void* fake = nullptr;  // AddressSanitizer's fake stack.
};

struct Fiber {
  std::unique_ptr<std::byte[]> memory;
  Stack stack;
  bool done = true;
  bool has_inputs = false;  // Whether the thread has called wait_for_inputs().
  // The thread can resume when this counter differs from `seen`. If null, the thread can run now.
  const uint64_t* awaited = nullptr;
  uint64_t seen = 0;
  std::vector<CopyGroup> groups;  // Committed groups of asynchronous copies, oldest first.
  CopyGroup open;
};

struct Machine {
  std::mutex launch;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<std::byte> shared;
  size_t shared_bytes = 0;
  const std::function<void()>* kernel = nullptr;
  unsigned current = 0, n_threads = 0, n_live = 0;
  std::vector<unsigned> turn;   // The block's threads in running order, warp by warp.
  std::vector<unsigned> place;  // Each thread's index in `turn`.
  unsigned block_arrived = 0;
  uint64_t block_passed = 0;
  uint64_t events =
      0;  // Counts passed barriers and finished threads. If it stays unchanged for many rounds, there is a deadlock.
  uint64_t rounds = 0;  // Number of rounds in which every runnable thread ran once.
  Order order = Order::kAscending;
  uint32_t shuffle_state = 1;
  uint64_t launches = 0;
  Stack main;  // Stack of the thread that called run().
};

Machine& machine() {
  static Machine* const only = new Machine;  // Never destroyed, because stacks may still be in use at exit.
  return *only;
}

bool can_run(const Fiber& fiber) { return !fiber.done && (!fiber.awaited || *fiber.awaited != fiber.seen); }

// Switches from stack `from` to stack `to`. If `for_good` is set, `from` is never resumed.
void switch_stacks(Stack& from, Stack& to, bool for_good = false) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake, to.bottom, to.size);
#else
  static_cast<void>(for_good);
#endif
#if defined(__x86_64__)
  monolith_switch_stack(&from.top, to.top);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

// Makes `thread` the running thread and returns its stack.
Stack& take_over(Machine& m, unsigned thread) {
  m.current = thread;
  where.thread = {thread, 0, 0};
  m.fibers[thread].awaited = nullptr;
  return m.fibers[thread].stack;
}

// Switches from a fiber's stack to the next runnable fiber of the same warp. If there is none, switches to the stack of
// run().
void leave(Machine& m, Fiber& fiber, bool for_good) {
  const unsigned place = m.place[m.current], warp = place / 32 * 32, lanes = std::min(32u, m.n_threads - warp);
  for (unsigned i = 1; i < lanes; ++i) {
    const unsigned next = m.turn[warp + (place - warp + i) % lanes];
    if (can_run(m.fibers[next])) return switch_stacks(fiber.stack, take_over(m, next), for_good);
  }
  switch_stacks(fiber.stack, m.main, for_good);
}

void finish_copies(Fiber& fiber, size_t keep) {
  while (fiber.groups.size() > keep) {
    for (const CopyGroup::Copy& copy : fiber.groups.front().copies) {
      std::memset(copy.to, 0, 16);
      if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    }
    fiber.groups.erase(fiber.groups.begin());
  }
}

void thread_main() {
  Machine& m = machine();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  (*m.kernel)();
  Fiber& fiber = m.fibers[m.current];
  if (!fiber.has_inputs) stop("a thread ended without wait_for_inputs()");
  if (!fiber.open.copies.empty()) stop("a thread ended with uncommitted asynchronous copies");
  finish_copies(fiber, 0);
  fiber.done = true;
  --m.n_live;
  ++m.events;
  leave(m, fiber, true);
  stop("a thread was resumed after its end");
}

void prepare(Fiber& fiber) {
  if (!fiber.memory) fiber.memory = std::make_unique<std::byte[]>(kStackBytes);
  fiber.done = false;
  fiber.has_inputs = false;
  fiber.awaited = nullptr;
  fiber.stack.bottom = fiber.memory.get();
  fiber.stack.size = kStackBytes;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(fiber.memory.get(), kStackBytes);
#endif
#if defined(__x86_64__)
  // Lays out the new stack in the same way as monolith_switch_stack leaves a suspended stack: six registers, then the
  // address at which to resume. The stack pointer is aligned as it is after a call.
  auto top = reinterpret_cast<uintptr_t>(fiber.memory.get() + kStackBytes) & ~uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top) - 2;
  words[0] = reinterpret_cast<void*>(&thread_main);
  words[1] = nullptr;
  for (int i = 1; i <= 6; ++i) words[-i] = nullptr;
  fiber.stack.top = words - 6;
#else
  getcontext(&fiber.stack.context);
  fiber.stack.context.uc_stack.ss_sp = fiber.memory.get();
  fiber.stack.context.uc_stack.ss_size = kStackBytes;
  fiber.stack.context.uc_link = nullptr;
  makecontext(&fiber.stack.context, thread_main, 0);
#endif
}

// Suspends the running thread until `counter` differs from `seen`, its current value.
void wait_for(Machine& m, const uint64_t& counter, uint64_t seen) {
  Fiber& fiber = m.fibers[m.current];
  fiber.awaited = &counter;
  fiber.seen = seen;
  leave(m, fiber, false);
}

uint32_t random(Machine& m) {
  m.shuffle_state ^= m.shuffle_state << 13;
  m.shuffle_state ^= m.shuffle_state >> 17;
  m.shuffle_state ^= m.shuffle_state << 5;
  return m.shuffle_state;
}

// Sets the running order of a block's threads: warp by warp, and lane by lane within a warp.
void arrange(Machine& m) {
  m.turn.resize(m.n_threads);
  m.place.resize(m.n_threads);
  std::iota(m.turn.begin(), m.turn.end(), 0u);
  const auto warps = static_cast<unsigned>(m.warps.size());
  if (m.n_threads % 32 == 0 && m.order != Order::kAscending) {
    std::vector<unsigned> order(warps), lanes(32);
    std::iota(order.begin(), order.end(), 0u);
    std::iota(lanes.begin(), lanes.end(), 0u);
    const auto mix = [&](std::vector<unsigned>& numbers) {
      std::ranges::reverse(numbers);
      if (m.order != Order::kShuffled) return;
      for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random(m) % i]);
    };
    mix(order);
    for (unsigned w = 0; w < warps; ++w) {
      if (w == 0 || m.order == Order::kShuffled) mix(lanes);
      for (unsigned i = 0; i < 32; ++i) m.turn[w * 32 + i] = order[w] * 32 + lanes[i];
    }
  }
  for (unsigned i = 0; i < m.n_threads; ++i) m.place[m.turn[i]] = i;
}

void run_block(Machine& m) {
  // Fills shared memory with garbage: NaN as a float, -1 as an integer.
  std::memset(m.shared.data(), 0xff, m.shared.size());
  m.block_arrived = 0;
  for (Warp& warp : m.warps) warp.arrived = 0;
  for (unsigned i = 0; i < m.n_threads; ++i) prepare(m.fibers[i]);
  if (m.order == Order::kShuffled) arrange(m);
  m.n_live = m.n_threads;
  uint64_t before = m.events;
  for (int idle_rounds = 0; m.n_live > 0;) {
    ++m.rounds;
    for (const unsigned thread : m.turn)
      if (can_run(m.fibers[thread])) switch_stacks(m.main, take_over(m, thread));
    // A few rounds in which no thread makes progress are normal while threads poll.
    idle_rounds = m.events == before ? idle_rounds + 1 : 0;
    if (idle_rounds == 100) stop("threads wait for each other at different barriers");
    before = m.events;
  }
}

}  // namespace

void set_order(Order order) { machine().order = order; }
uint64_t launches() { return machine().launches; }

void run(const std::function<void()>& kernel, dim3 grid, int threads, size_t shared_bytes) {
  Machine& m = machine();
  const std::lock_guard lock(m.launch);
  ++m.launches;
  if (threads < 1 || threads > static_cast<int>(kMaxThreads)) stop("threads per block must be 1 to 1024");
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.y > 65535 || grid.z > 65535) stop("grid is out of range");
  if (shared_bytes > 227 << 10) stop("shared memory exceeds the limit of a block (227 KiB)");
#if defined(__SANITIZE_ADDRESS__)
  pthread_attr_t attributes;  // Attributes of the calling thread. Its stack bounds are needed to switch back to it.
  void* bottom = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &bottom, &m.main.size);
  pthread_attr_destroy(&attributes);
  m.main.bottom = bottom;
#endif
  m.kernel = &kernel;
  m.n_threads = static_cast<unsigned>(threads);
  if (m.fibers.size() < m.n_threads) m.fibers.resize(m.n_threads);
  m.warps.resize((m.n_threads + 31) / 32);
  m.shared.resize(shared_bytes + 1024);
  m.shared.shrink_to_fit();
  m.shared_bytes = shared_bytes;
  where.block_size = {m.n_threads, 1, 1};
  where.grid_size = grid;
  arrange(m);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        where.block = {x, y, z};
        run_block(m);
      }
}

void* shared_memory(size_t bytes) {
  Machine& m = machine();
  if (bytes > m.shared_bytes) stop("kernel uses more shared memory than the launch allotted");
  const auto at = reinterpret_cast<uintptr_t>(m.shared.data());
  return reinterpret_cast<void*>((at + 1023) & ~uintptr_t{1023});
}

void wait_block() {
  Machine& m = machine();
  const uint64_t own = m.block_passed;
  if (++m.block_arrived == m.n_threads) {
    m.block_arrived = 0;
    ++m.block_passed;
    ++m.events;
    return;
  }
  wait_for(m, m.block_passed, own);
}

void wait_warp() {
  Machine& m = machine();
  Warp& warp = m.warps[m.current / 32];
  const unsigned lanes = std::min(32u, m.n_threads - m.current / 32 * 32);
  const uint64_t own = warp.passed;
  if (++warp.arrived == lanes) {
    warp.arrived = 0;
    ++warp.passed;
    ++m.events;
    return;
  }
  wait_for(m, warp.passed, own);
}

void wait_for_inputs() {
  Machine& m = machine();
  m.fibers[m.current].has_inputs = true;
}
void check_inputs() {
  const Machine& m = machine();
  if (!m.fibers[m.current].has_inputs) stop("memory that other kernels may write is used before wait_for_inputs()");
}

const std::byte* exchange(const void* own, size_t size) {
  Machine& m = machine();
  Warp& warp = m.warps[m.current / 32];
  // Two sets of slots in alternation are enough, because a lane can be at most one exchange ahead of another lane.
  const size_t parity = warp.passed % 2;
  std::vector<std::byte>& slots = warp.slots[parity];
  if (slots.size() < 32 * size) slots.resize(std::max(32 * size, size_t{4096}));
  std::memcpy(slots.data() + m.current % 32 * size, own, size);
  wait_warp();
  return m.warps[m.current / 32].slots[parity].data();
}

// Suspends the running thread until all other threads have had a turn.
void pause_thread() {
  Machine& m = machine();
  wait_for(m, m.rounds, m.rounds);
}
void note_progress() { ++machine().events; }

void check_mask(unsigned mask) {
  if (mask != 0xffffffffu) stop("a warp-wide operation needs all lanes of the warp");
}

// --- tensor.h ----------------------------------------------------------------------------------

namespace {
struct Fragments {
  uint32_t a[4], b[2];
};
}  // namespace

void mma_16bit(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float (*decode)(uint16_t)) {
  Fragments own;
  std::memcpy(own.a, a, sizeof own.a);
  std::memcpy(own.b, b, sizeof own.b);
  const auto* all = reinterpret_cast<const Fragments*>(exchange(&own, sizeof own));
  const unsigned lane = where.thread.x % 32, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + i % 2;
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned word = k / 8, from = k % 8 / 2, shift = k % 2 * 16;
      const uint32_t wa = all[g * 4 + from].a[word * 2 + i / 2];
      const uint32_t wb = all[column * 4 + from].b[word];
      sum += decode(static_cast<uint16_t>(wa >> shift)) * decode(static_cast<uint16_t>(wb >> shift));
    }
    c[i] += sum;
  }
}

void mma_s8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fragments own;
  std::memcpy(own.a, a, sizeof own.a);
  std::memcpy(own.b, b, sizeof own.b);
  const auto* all = reinterpret_cast<const Fragments*>(exchange(&own, sizeof own));
  const unsigned lane = where.thread.x % 32, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + i % 2;
    for (unsigned from = 0; from < 4; ++from)
      for (unsigned word = 0; word < 2; ++word)
        c[i] = dot4(all[g * 4 + from].a[word * 2 + i / 2], all[column * 4 + from].b[word], c[i]);
  }
}

void load_matrices(uint32_t (&out)[4], const void* row, bool transposed) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) stop("matrix rows must be 16 bytes, aligned to 16 bytes");
  const auto* rows = reinterpret_cast<const void* const*>(exchange(&row, sizeof row));
  const unsigned lane = where.thread.x % 32, g = lane / 4, t = lane % 4;
  uint32_t loaded[4];
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t low, high;
    if (transposed) {
      std::memcpy(&low, static_cast<const std::byte*>(rows[8 * i + 2 * t]) + 2 * g, 2);
      std::memcpy(&high, static_cast<const std::byte*>(rows[8 * i + 2 * t + 1]) + 2 * g, 2);
    } else {
      std::memcpy(&low, static_cast<const std::byte*>(rows[8 * i + g]) + 4 * t, 2);
      std::memcpy(&high, static_cast<const std::byte*>(rows[8 * i + g]) + 4 * t + 2, 2);
    }
    loaded[i] = uint32_t{low} | uint32_t{high} << 16;
  }
  // Each lane supplies the addresses of rows for other lanes, so no lane may write to the rows before all lanes have
  // read them.
  wait_warp();
  std::memcpy(out, loaded, sizeof loaded);
}

void copy_async(void* to_shared, const void* from, int bytes) {
  if (bytes < 0 || bytes > 16) stop("an asynchronous copy must be 0 to 16 bytes");
  if (reinterpret_cast<uintptr_t>(to_shared) % 16 != 0 || (bytes > 0 && reinterpret_cast<uintptr_t>(from) % 16 != 0))
    stop("an asynchronous copy must be 16 bytes, aligned to 16 bytes");
  Machine& m = machine();
  std::memset(to_shared, 0xff, 16);
  m.fibers[m.current].open.copies.push_back({to_shared, from, static_cast<size_t>(bytes)});
}

void copies_commit() {
  Machine& m = machine();
  Fiber& fiber = m.fibers[m.current];
  fiber.groups.push_back(std::move(fiber.open));
  fiber.open = {};
}

void copies_wait(int pending) {
  Machine& m = machine();
  finish_copies(m.fibers[m.current], static_cast<size_t>(pending));
}

}  // namespace monolith::cuda::emulator
