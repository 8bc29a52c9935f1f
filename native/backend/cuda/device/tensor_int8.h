// 8-bit tensor core instructions whose accumulators all have the same initial value: D = A B + start. The results are
// exact. Fragments are laid out as in tensor.h; shape m16n8k16 uses only the first halves: a[0], a[1] and b[0].
#pragma once

#include "backend/cuda/device/tensor.h"

// Placed before a loop that must not be unrolled.
#ifdef __CUDACC__
#define MONOLITH_NO_UNROLL _Pragma("unroll 1")
#else
#define MONOLITH_NO_UNROLL
#endif

namespace monolith::cuda {

#ifdef __CUDACC__

// Load instructions that the compiler cannot move. Otherwise, it would hoist all loads of an unrolled loop and run out
// of registers. The loads are predicated instead of branching: nothing is read if `wanted` is false.
// - load_stream reads weights that are not reused soon.
// - load_kept reads weights and keeps them in the L1 cache.
// - load_far reads data that other kernels computed.
// If `wanted` is false, the functions above return 0. load_far_if then returns undefined values, because setting them
// to zero would cost extra instructions.
#define MONOLITH_LOAD4(name, instruction, begin, to)                                                         \
  __device__ __forceinline__ Words4 name(const Words4* from, bool wanted) {                                  \
    Words4 v begin;                                                                                          \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p " instruction ".v4.u32 {%0, %1, %2, %3}, [%4]; }" \
                 : to(v.x), to(v.y), to(v.z), to(v.w)                                                        \
                 : "l"(from), "r"(static_cast<uint32_t>(wanted)));                                           \
    return v;                                                                                                \
  }
#define MONOLITH_LOAD2(name, instruction, begin, to)                                                 \
  __device__ __forceinline__ Words2 name(const Words2* from, bool wanted) {                          \
    Words2 v begin;                                                                                  \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p " instruction ".v2.u32 {%0, %1}, [%2]; }" \
                 : to(v.x), to(v.y)                                                                  \
                 : "l"(from), "r"(static_cast<uint32_t>(wanted)));                                   \
    return v;                                                                                        \
  }
MONOLITH_LOAD4(load_stream, "ld.global.nc.L1::no_allocate", {}, "+r")
MONOLITH_LOAD2(load_stream, "ld.global.nc.L1::no_allocate", {}, "+r")
MONOLITH_LOAD4(load_kept, "ld.global.nc", {}, "+r")
MONOLITH_LOAD2(load_kept, "ld.global.nc", {}, "+r")
MONOLITH_LOAD4(load_far, "ld.global", {}, "+r")
MONOLITH_LOAD2(load_far, "ld.global", {}, "+r")
MONOLITH_LOAD2(load_far_if, "ld.global", , "=r")
#undef MONOLITH_LOAD4
#undef MONOLITH_LOAD2
__device__ __forceinline__ uint32_t load_kept(const uint32_t* from, bool wanted) {
  uint32_t v = 0;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.nc.u32 %0, [%1]; }"
               : "+r"(v)
               : "l"(from), "r"(static_cast<uint32_t>(wanted)));
  return v;
}
// A 32-bit shared memory address. The load_near functions read at `offset` bytes from it.
using Near = uint32_t;
__device__ __forceinline__ Near near_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ Words4 load_near4(Near at, int offset) {
  Words4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at + static_cast<uint32_t>(offset))
               : "memory");
  return v;
}
__device__ __forceinline__ Words2 load_near2(Near at, int offset) {
  Words2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(at + static_cast<uint32_t>(offset))
               : "memory");
  return v;
}
__device__ __forceinline__ uint32_t load_near1(Near at, int offset) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at + static_cast<uint32_t>(offset)) : "memory");
  return v;
}
// Returns the same address through an optimization barrier. Constant offsets from the returned address then stay in the
// instructions; otherwise, the compiler would keep each sum in a register across the loop.
__device__ __forceinline__ Near hidden(Near at) {
  asm volatile("" : "+r"(at));
  return at;
}
template <typename T>
__device__ __forceinline__ const T* hidden(const T* at) {
  asm volatile("" : "+l"(at));
  return at;
}

// Initial accumulator values.
struct Start {
  uint32_t of[4];
};
__device__ __forceinline__ void mma_s8_k32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                           const Start& start) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start.of[0]), "r"(start.of[1]),
        "r"(start.of[2]), "r"(start.of[3]));
}
__device__ __forceinline__ void mma_s8_k16(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, const Start& start) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(b), "r"(start.of[0]), "r"(start.of[1]), "r"(start.of[2]), "r"(start.of[3]));
}

#else

inline Words4 load_stream(const Words4* from, bool wanted) { return wanted ? *from : Words4{0, 0, 0, 0}; }
inline Words2 load_stream(const Words2* from, bool wanted) { return wanted ? *from : Words2{0, 0}; }
inline Words4 load_kept(const Words4* from, bool wanted) { return wanted ? *from : Words4{0, 0, 0, 0}; }
inline Words2 load_kept(const Words2* from, bool wanted) { return wanted ? *from : Words2{0, 0}; }
inline uint32_t load_kept(const uint32_t* from, bool wanted) { return wanted ? *from : 0; }
inline Words4 load_far(const Words4* from, bool wanted) {
  emulator::check_inputs();
  return wanted ? *from : Words4{0, 0, 0, 0};
}
inline Words2 load_far(const Words2* from, bool wanted) {
  emulator::check_inputs();
  return wanted ? *from : Words2{0, 0};
}
inline Words2 load_far_if(const Words2* from, bool wanted) {
  emulator::check_inputs();
  return wanted ? *from : Words2{~0u, ~0u};
}
using Near = const unsigned char*;
inline Near near_address(const void* at) { return static_cast<Near>(at); }
inline Words4 load_near4(Near at, int offset) { return *reinterpret_cast<const Words4*>(at + offset); }
inline uint32_t load_near1(Near at, int offset) { return *reinterpret_cast<const uint32_t*>(at + offset); }
inline Words2 load_near2(Near at, int offset) { return *reinterpret_cast<const Words2*>(at + offset); }
template <typename T>
const T* hidden(const T* at) {
  return at;
}
struct Start {
  uint32_t of[4];
};
inline void mma_s8_k32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Start& start) {
  std::memcpy(d, start.of, sizeof d);
  mma_s8(d, a, b);
}
inline void mma_s8_k16(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, const Start& start) {
  const uint32_t a[4] = {a0, a1, 0, 0}, both[2] = {b, 0};
  mma_s8_k32(d, a, both, start);
}

#endif

}  // namespace monolith::cuda
