// Runs CUDA kernels on the host, one block after another, with a separate stack for each thread in a block. Kernel
// files include this header when the host's compiler compiles them. The emulator is stricter than a GPU: shared memory
// starts as garbage, and an asynchronous copy arrives only when a thread waits for it. If not all threads of a block
// reach the same barrier, the process ends with a message. set_order() changes the order in which threads run between
// two barriers, so that a missing barrier changes the result.
//
// Each process runs one launch at a time (guarded by a lock). Kernels run on the caller's thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "base/half.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __restrict__

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace monolith::cuda::emulator {

// The running thread's thread index and block index, and the launch's block size and grid size.
struct Where {
  dim3 thread, block, block_size, grid_size;
};
extern Where where;

enum class Order : uint8_t { kAscending, kDescending, kShuffled };
void set_order(Order order);
uint64_t launches();  // Number of kernel launches so far.

// Runs `kernel` once for every thread in a `grid` of blocks. Each block has `threads` threads and `shared_bytes` bytes
// of shared memory.
void run(const std::function<void()>& kernel, dim3 grid, int threads, size_t shared_bytes);

// Returns the block's shared memory. Ends the process if `bytes` exceeds the size that was requested for the launch.
void* shared_memory(size_t bytes);
void wait_block();  // Block barrier (__syncthreads).
void wait_warp();
void wait_for_inputs();  // Every thread of a kernel must call wait_for_inputs() once; see language.h.
void check_inputs();     // Stops the process if the running thread has not called wait_for_inputs() yet.
void pause_thread();     // Lets the other threads run.
void note_progress();    // Reports a change that a paused thread may be waiting for.
[[noreturn]] void stop(const char* what);  // Ends the process because a kernel has broken a rule.
// Waits until all lanes of the warp have called this function with their own `size` bytes. Returns the bytes of all
// lanes, [32][size]. The result is valid until the lane's next exchange.
const std::byte* exchange(const void* own, size_t size);

template <typename T>
T shuffle(unsigned mask, T value, unsigned lane);
void check_mask(unsigned mask);

template <typename T>
T atomic_update(T* at, T now) {
  check_inputs();
  const T before = *at;
  *at = now;
  return before;
}

}  // namespace monolith::cuda::emulator

#define threadIdx (::monolith::cuda::emulator::where.thread)
#define blockIdx (::monolith::cuda::emulator::where.block)
#define blockDim (::monolith::cuda::emulator::where.block_size)
#define gridDim (::monolith::cuda::emulator::where.grid_size)

inline void __syncthreads() { monolith::cuda::emulator::wait_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  monolith::cuda::emulator::check_mask(mask);
  monolith::cuda::emulator::wait_warp();
}
inline void __threadfence() {}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return monolith::cuda::emulator::shuffle(mask, value, static_cast<unsigned>(lane) % 32u);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return monolith::cuda::emulator::shuffle(mask, value, (threadIdx.x % 32u) ^ static_cast<unsigned>(lanes));
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32u;
  return monolith::cuda::emulator::shuffle(mask, value, lane + distance < 32u ? lane + distance : lane);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32u;
  return monolith::cuda::emulator::shuffle(mask, value, lane >= distance ? lane - distance : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  monolith::cuda::emulator::check_mask(mask);
  const uint8_t own = predicate != 0;
  const std::byte* all = monolith::cuda::emulator::exchange(&own, 1);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32u; ++i) bits |= static_cast<unsigned>(all[i]) << i;
  return bits;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == 0xffffffffu; }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }

template <typename T>
T atomicAdd(T* at, T value) {
  return monolith::cuda::emulator::atomic_update(at, static_cast<T>(*at + value));
}
template <typename T>
T atomicMax(T* at, T value) {
  return monolith::cuda::emulator::atomic_update(at, *at > value ? *at : value);
}
template <typename T>
T atomicMin(T* at, T value) {
  return monolith::cuda::emulator::atomic_update(at, *at < value ? *at : value);
}
template <typename T>
T atomicOr(T* at, T value) {
  return monolith::cuda::emulator::atomic_update(at, static_cast<T>(*at | value));
}

template <typename T>
T monolith::cuda::emulator::shuffle(unsigned mask, T value, unsigned lane) {
  static_assert(std::is_trivially_copyable_v<T>);
  check_mask(mask);
  const std::byte* all = exchange(&value, sizeof(T));
  T other;
  std::memcpy(&other, all + lane * sizeof(T), sizeof(T));
  return other;
}
