// Tensor cores on 8-bit numbers from a common start, as tensor.h has the rest: D = A B + start in every element.
// Fragments as there; of m16n8k16 they are the first halves: a[0], a[1] and b[0]. Exact.
#pragma once

#include "backend/cuda/device/tensor.h"

// Before a loop over constants, whose body indexes registers.
#ifdef __CUDACC__
#define MONOLITH_UNROLL _Pragma("unroll")
#else
#define MONOLITH_UNROLL
#endif

namespace monolith::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ void mma_s8_k32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int32_t start) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start));
}
__device__ __forceinline__ void mma_s8_k16(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int32_t start) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "r"(start));
}

#else

inline void mma_s8_k32(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int32_t start) {
  for (int32_t& value : d) value = start;
  mma_s8(d, a, b);
}
inline void mma_s8_k16(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int32_t start) {
  const uint32_t a[4] = {a0, a1, 0, 0}, both[2] = {b, 0};
  mma_s8_k32(d, a, both, start);
}

#endif

}  // namespace monolith::cuda
