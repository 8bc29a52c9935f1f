// The device language: the subset of CUDA that kernels may use. A kernel file (*.cu) is compiled twice from the same
// source: by nvcc for the GPU, and by the host compiler for the emulator (emulator.h). The emulator runs grids of
// threads on one processor, so every kernel is tested on machines without a GPU. A kernel may therefore use only these
// CUDA features:
//   __global__, __device__, __grid_constant__, __launch_bounds__, threadIdx, blockIdx, blockDim, gridDim, dim3,
//   __syncthreads(), __syncwarp(), __shfl_sync(), __shfl_xor_sync(), __shfl_down_sync(), __ballot_sync(),
//   __any_sync(), __all_sync(), atomicAdd(), atomicMax(), atomicMin(), atomicOr() (int, unsigned, 64-bit unsigned),
//   fmaf() and the C math functions,
// and everything in this file and in tensor.h. Warp-wide operations take whole warps (mask kWholeWarp), and all threads
// of a block must reach each barrier. The emulator enforces both rules.
//
// PROGRAMMATIC DEPENDENT LAUNCH. On Hopper and later a kernel may start while the previous kernel in the stream still
// runs (launch.h), so that its blocks are resident when the last results arrive. This places three requirements on each
// kernel:
// - Every thread calls wait_for_inputs(), even if it has nothing else to do. A kernel completes only after the previous
//   kernel has completed, so waiting for one kernel implies waiting for all kernels before it. The emulator aborts the
//   process if a thread does not call wait_for_inputs().
// - Before wait_for_inputs(), a kernel reads nothing that another kernel may have written since the last fence
//   (Runtime::settle()), and writes nothing that an earlier kernel may read or write: no inputs, no outputs, no
//   scratch. It may read its arguments, data written only by copies (copies never overlap with kernels), and data that
//   is constant while kernels run, that is, weights. The loader writes weights with kernels and then calls
//   Runtime::settle(). Functions that read weights are named or parameterized accordingly (load_once(),
//   Source::kConstant).
// - let_next_start() comes first in the kernel. Calling it early costs nothing: the next kernel's blocks start only
//   when all blocks of this kernel have called it or exited. No block of this kernel, however many waves there are,
//   ever waits for resources taken by the next kernel. Until their own wait, the next kernel's blocks read only
//   weights, which have to be read anyway.
//
// Most kernels therefore begin with start_after_inputs(), which calls both functions. Data written by other kernels
// must never be read with ld.global.nc (or through `const __restrict__` pointers, which compile to it). That cache is
// coherent only for data that stays constant for the kernel's whole lifetime, including its wait.
//
// Like the host code, kernels are compiled without contraction of multiplications and additions into FMAs. A fused
// multiply-add is always an explicit fmaf(). Results are therefore bit-identical on the GPU and in the emulator
// wherever only +, -, *, /, sqrtf and fmaf are used.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define MONOLITH_DEVICE __device__ __forceinline__
#define MONOLITH_HOST_DEVICE __host__ __device__ __forceinline__
#define MONOLITH_UNROLL _Pragma("unroll")    // Fully unrolls the following loop, so that arrays stay in registers.
#define MONOLITH_ROLLED _Pragma("unroll 1")  // Prevents unrolling of the following loop, to save registers.
#else
// Host code of a GPU build uses only the types in this file. The emulator belongs to the tests and is not on the
// include path of a GPU build.
#if __has_include("emulator/emulator.h")
#include "emulator/emulator.h"
#define MONOLITH_EMULATED
#else
#include "base/half.h"
#endif
#define MONOLITH_DEVICE inline
#define MONOLITH_HOST_DEVICE inline
#define MONOLITH_UNROLL
#define MONOLITH_ROLLED
#endif

namespace monolith::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

// 16 bytes that one instruction can load or store.
struct alignas(16) Words4 {
  uint32_t x, y, z, w;
};
struct alignas(8) Words2 {
  uint32_t x, y;
};
struct alignas(16) Floats4 {
  float x, y, z, w;
};
struct alignas(8) FloatPair {
  float x, y;
};

#ifdef __CUDACC__

// Returns the block's dynamic shared memory as an object of type T. A kernel declares all its shared memory as one
// struct, and passes the size of that struct at launch. The contents are undefined at the start of a block.
template <typename T>
__device__ __forceinline__ T& shared_memory() {
  extern __shared__ __align__(1024) unsigned char monolith_shared[];
  return *reinterpret_cast<T*>(monolith_shared);
}

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % 32u); }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x / 32u); }

// Reinterprets the bits of a value as another type of the same size.
__device__ __forceinline__ float as_float(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint32_t as_bits(float value) { return __float_as_uint(value); }

// binary16 and bfloat16 values are stored as their bit patterns.
__device__ __forceinline__ float half_to_float(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
// Rounds to nearest, ties to even.
__device__ __forceinline__ uint16_t float_to_half(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ float bfloat16_to_float(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }
__device__ __forceinline__ uint16_t float_to_bfloat16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// States whether the data that a kernel reads may have been written by other kernels since the last fence (kComputed),
// or has been constant since then (kConstant). See the top of this file.
enum class Source : uint8_t { kComputed, kConstant };

// Allows the next kernel to start. Does not imply that the results of this kernel are complete.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until the previous kernels have completed and their writes are visible.
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Loads weights through the read-only path, without allocating in the L1 cache because streamed data is not reused
// soon.
__device__ __forceinline__ Words4 load_once(const Words4* from) {
  Words4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ Words2 load_once(const Words2* from) {
  Words2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
  return v;
}
__device__ __forceinline__ uint32_t load_once(const uint32_t* from) {
  uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

// Loads data that another block of this launch has written and published (with __threadfence() and a counter). Bypasses
// the L1 cache.
__device__ __forceinline__ Floats4 load_fresh(const Floats4* from) {
  Floats4 v;
  asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

// Returns `value` through an optimization barrier, so that the compiler does not keep expressions derived from an
// earlier copy in registers.
__device__ __forceinline__ int forgotten(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Returns 2^x with an error of about 2 units in the last place; the result for -inf is 0. The bits differ from those of
// the emulator.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns `sum` plus the dot product of four signed 8-bit values in `a` with four in `b`.
__device__ __forceinline__ int dot4(uint32_t a, uint32_t b, int sum) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}
// Selects four bytes from the eight bytes of (high, low) by the four low nibbles of `selector`, starting with the
// lowest nibble.
__device__ __forceinline__ uint32_t choose_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  return __byte_perm(low, high, selector);
}

#elif defined(MONOLITH_EMULATED)

enum class Source : uint8_t { kComputed, kConstant };
inline void check_source(Source source) {
  if (source == Source::kComputed) emulator::check_inputs();
}
inline void let_next_start() {}
inline void wait_for_inputs() { emulator::wait_for_inputs(); }

template <typename T>
T& shared_memory() {
  return *static_cast<T*>(emulator::shared_memory(sizeof(T)));
}
inline int lane_id() { return static_cast<int>(threadIdx.x % 32u); }
inline int warp_id() { return static_cast<int>(threadIdx.x / 32u); }
inline float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t as_bits(float value) { return std::bit_cast<uint32_t>(value); }
using ::monolith::bfloat16_to_float;
using ::monolith::half_to_float;
using ::monolith::float_to_bfloat16;
using ::monolith::float_to_half;
inline Words4 load_once(const Words4* from) { return *from; }
inline Words2 load_once(const Words2* from) { return *from; }
inline uint32_t load_once(const uint32_t* from) { return *from; }
inline Floats4 load_fresh(const Floats4* from) {
  emulator::check_inputs();
  return *from;
}
inline int forgotten(int value) { return value; }
inline float fast_exp2(float x) { return std::exp2(x); }
inline int dot4(uint32_t a, uint32_t b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return sum;
}
inline uint32_t choose_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i) chosen |= static_cast<uint32_t>(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return chosen;
}

#endif
#if defined(__CUDACC__) || defined(MONOLITH_EMULATED)

// Prologue of a kernel that reads nothing before its inputs are complete: allows the next kernel to start, then waits
// for the inputs.
MONOLITH_DEVICE void start_after_inputs() {
  let_next_start();
  wait_for_inputs();
}

// Returns the sum (or maximum) over a warp to every lane, always reduced in the same tree order.
MONOLITH_DEVICE float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}
MONOLITH_DEVICE float warp_max(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, value, distance);
    value = value > other ? value : other;
  }
  return value;
}

// Packs two binary16 or bfloat16 values into one word, with `low` in the low half.
MONOLITH_DEVICE uint32_t pack_halves(float low, float high) {
  return uint32_t{float_to_half(low)} | uint32_t{float_to_half(high)} << 16;
}
MONOLITH_DEVICE uint32_t pack_bfloat16s(float low, float high) {
  return uint32_t{float_to_bfloat16(low)} | uint32_t{float_to_bfloat16(high)} << 16;
}

#endif

}  // namespace monolith::cuda
