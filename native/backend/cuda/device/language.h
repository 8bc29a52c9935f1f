// The device language: what a kernel may use. A kernel file (*.cu) is compiled twice from one text: by nvcc for
// the GPU, and by the host's compiler for the emulator (emulator.h), which runs grids of threads on one processor
// so that every kernel is tested on machines without a GPU. A kernel therefore uses nothing of CUDA but
//   __global__, __device__, __grid_constant__, __launch_bounds__, threadIdx, blockIdx, blockDim, gridDim, dim3,
//   __syncthreads(), __syncwarp(), __shfl_sync(), __shfl_xor_sync(), __shfl_down_sync(), __ballot_sync(),
//   __any_sync(), __all_sync(), atomicAdd(), atomicMax(), atomicMin(), atomicOr() (int, unsigned, 64-bit unsigned),
//   fmaf() and the C mathematics,
// and of this file and tensor.h everything. Warp-wide operations take whole warps (mask kWholeWarp), and all of a
// block's threads reach each barrier: the emulator holds kernels to both.
//
// EARLY LAUNCH. On Hopper and later a kernel may be started while the one before it in the stream still runs
// (launch.h), so that its blocks are there when the last results come. What that asks of each kernel:
//   - Every thread calls wait_for_inputs(), also one with nothing to do: a kernel is over only when the one before it
//     is, and whoever waits for one has then waited for all before it. The emulator ends the process otherwise.
//   - Before, nothing is read that a kernel may write in the same stretch of work, and nothing is written that an
//     earlier kernel may read or write: no inputs, no outputs, no scratch. Only the kernel's arguments, what only copies
//     write (nothing overlaps with those), and what is constant while kernels are at work: weights. The loader has
//     kernels write these, and then says Runtime::settle(). Reads of weights go through functions that say so
//     (load_once(), Source::kConstant).
//   - let_next_start() comes first of all. It gives nothing away: the next kernel's blocks start only when all blocks
//     of this one have called it or ended, so that none of this kernel's blocks, of however many waves, ever waits for
//     room that the next one took. What they may read before their wait is weights, and that traffic is due anyway.
// Most kernels therefore begin with start_after_inputs(), which is both. What other kernels write is never read with
// ld.global.nc (or `const __restrict__` pointers, which become that): its cache is valid only for what stays the same
// as long as the kernel is there, waiting included.
//
// Compiled without contraction of products and sums (as the host's code is): where a fused multiply-add is meant,
// fmaf() says so, and results are the same bits on the GPU and in the emulator wherever only +, -, *, /, sqrtf and
// fmaf are used.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define MONOLITH_DEVICE __device__ __forceinline__
#define MONOLITH_HOST_DEVICE __host__ __device__ __forceinline__
#define MONOLITH_UNROLL _Pragma("unroll")    // the loop after it, wholly: what keeps arrays in registers
#define MONOLITH_ROLLED _Pragma("unroll 1")  // not at all: where registers are few
#else
// Host code of a build for a GPU sees the types alone: there the emulator, which belongs to the tests, is not on the path.
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

// 16 bytes moved at once.
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

// The block's dynamic shared memory as one `T`: kernels declare all they share as one struct, of whose size the
// launch is told. Its content is undefined at the start of a block.
template <typename T>
__device__ __forceinline__ T& shared_memory() {
  extern __shared__ __align__(1024) unsigned char monolith_shared[];
  return *reinterpret_cast<T*>(monolith_shared);
}

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % 32u); }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x / 32u); }

// The bits of another type of the same size.
__device__ __forceinline__ float as_float(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint32_t as_bits(float value) { return __float_as_uint(value); }

// binary16 and bfloat16 in memory are their bits.
__device__ __forceinline__ float half_to_float(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
// To nearest, ties to even.
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

// Where a read comes from: what kernels of this stretch of work compute, or what is constant meanwhile (above).
enum class Source : uint8_t { kComputed, kConstant };

// The next kernel may be started; this one's results are not meant to be there.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until the kernels before this one are over and what they wrote is there.
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Reads of weights, through the read-only path; not wanted again soon: streams.
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

// What another block of this launch wrote and made known (__threadfence(), a counter): past the L1 cache.
__device__ __forceinline__ Floats4 load_fresh(const Floats4* from) {
  Floats4 v;
  asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

// `value`, of which the compiler knows nothing: what was computed from it before is not kept in registers for this one.
__device__ __forceinline__ int forgotten(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// 2^x to about 2 units in the last place; -inf gives 0. Not the same bits in the emulator.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// sum + a.b of four signed 8-bit numbers each.
__device__ __forceinline__ int dot4(uint32_t a, uint32_t b, int sum) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}
// Four bytes chosen by the low nibbles of `selector` out of the eight of (high, low), lowest first.
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

// How a kernel begins that reads nothing before its inputs.
MONOLITH_DEVICE void start_after_inputs() {
  let_next_start();
  wait_for_inputs();
}

// Sum, or largest, over a warp; every lane has it. Always the same tree.
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

// Two binary16 (bfloat16) numbers in one word, `low` in the low half.
MONOLITH_DEVICE uint32_t pack_halves(float low, float high) {
  return uint32_t{float_to_half(low)} | uint32_t{float_to_half(high)} << 16;
}
MONOLITH_DEVICE uint32_t pack_bfloat16s(float low, float high) {
  return uint32_t{float_to_bfloat16(low)} | uint32_t{float_to_bfloat16(high)} << 16;
}

#endif

}  // namespace monolith::cuda
