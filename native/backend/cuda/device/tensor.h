// Tensor core instructions and asynchronous copies of the device language. On the GPU they are inline PTX. The emulator
// computes the same products, but sums them in a different order, because the order inside a tensor core is
// undocumented. All functions take whole warps. Shape names follow the PTX ISA, "Warp-level matrix instructions":
// D[m][n] = A[m][k] B[k][n] + C.
//
// Fragments for 16-bit elements (two per word, lower k in the low half), with g = lane / 4 and t = lane % 4:
//   a[0]: row g,     k 2t, 2t+1      a[1]: row g + 8, the same k
//   a[2]: row g,     k 2t+8, 2t+9    a[3]: row g + 8, the same k
//   b[0]: column g,  k 2t, 2t+1      b[1]: column g,  k 2t+8, 2t+9
//   c[0], c[1]: row g, columns 2t, 2t+1      c[2], c[3]: row g + 8, the same columns
// Fragments for 8-bit elements (four per word) are the same with k 4t..4t+3 and 16 + 4t.., so the byte layout is
// identical.
#pragma once

#include "backend/cuda/device/language.h"

namespace monolith::cuda {

#ifdef __CUDACC__

// Computes c += A B with shape m16n8k16, bfloat16 inputs and float32 accumulation.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Computes c += A B with shape m16n8k16, binary16 inputs and float32 accumulation.
__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Computes c += A B with shape m16n8k32, signed 8-bit inputs and exact 32-bit sums.
__device__ __forceinline__ void mma_s8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Loads four 8x8 matrices of 16-bit elements from shared memory. Lanes 8i .. 8i + 7 supply the row addresses of matrix
// i (16 bytes each, aligned). A lane receives from each matrix elements 2t and 2t + 1 of row g, or of column g in the
// transposed variant.
__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

// Return the element-wise product and sum, respectively, of two words that each hold two binary16 values. Every result
// is rounded to nearest.
__device__ __forceinline__ uint32_t multiply_halves(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
__device__ __forceinline__ uint32_t add_halves(uint32_t a, uint32_t b) {
  uint32_t sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// Starts an asynchronous copy of the first `bytes` of 16 bytes from global to shared memory and fills the remaining
// bytes with zeros. Both addresses are 16-byte aligned; with `bytes` 0, `from` is not read. The data is visible to this
// thread after copies_wait() for its group, and to other threads after an additional barrier.
__device__ __forceinline__ void copy_async_part(void* to_shared, const void* from, int bytes) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to_shared))),
      "l"(from), "r"(bytes)
      : "memory");
}
// Copies all 16 bytes, or writes zeros if `valid` is false.
template <Source kSource = Source::kComputed>
__device__ __forceinline__ void copy_async(void* to_shared, const void* from, bool valid = true) {
  copy_async_part(to_shared, from, valid ? 16 : 0);
}
// If `wanted` is true, prefetches the 128 bytes around `at` into the L2 cache. Allowed for any device memory at any
// time, because all writes go through the L2 cache.
__device__ __forceinline__ void bring_near(const void* at, bool wanted) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p prefetch.global.L2 [%0]; }" ::"l"(at),
               "r"(static_cast<uint32_t>(wanted)));
}
// Closes the group of copies that were started since the previous call.
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all groups except at most the latest `pending` ones are complete.
template <int pending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

#else

namespace emulator {
void mma_16bit(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], float (*decode)(uint16_t));
void mma_s8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void load_matrices(uint32_t (&out)[4], const void* row, bool transposed);
void copy_async(void* to_shared, const void* from, int bytes);
void copies_commit();
void copies_wait(int pending);
}  // namespace emulator

inline void bring_near(const void*, bool) {}
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::mma_16bit(c, a, b, [](uint16_t bits) { return ::monolith::bfloat16_to_float(bits); });
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::mma_16bit(c, a, b, [](uint16_t bits) { return ::monolith::half_to_float(bits); });
}
inline void mma_s8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { emulator::mma_s8(c, a, b); }
inline void load_matrices(uint32_t (&out)[4], const void* row) { emulator::load_matrices(out, row, false); }
inline void load_matrices_transposed(uint32_t (&out)[4], const void* row) { emulator::load_matrices(out, row, true); }
inline void copy_async_part(void* to_shared, const void* from, int bytes) {
  check_source(Source::kComputed);
  emulator::copy_async(to_shared, from, bytes);
}
template <Source kSource = Source::kComputed>
void copy_async(void* to_shared, const void* from, bool valid = true) {
  check_source(kSource);
  emulator::copy_async(to_shared, from, valid ? 16 : 0);
}
// In float32, the product of two binary16 values is exact, and their sum is accurate enough to be rounded like the
// exact sum.
inline uint32_t multiply_halves(uint32_t a, uint32_t b) {
  const auto product = [&](int i) {
    return half_to_float(static_cast<uint16_t>(a >> i)) * half_to_float(static_cast<uint16_t>(b >> i));
  };
  return uint32_t{float_to_half(product(0))} | uint32_t{float_to_half(product(16))} << 16;
}
inline uint32_t add_halves(uint32_t a, uint32_t b) {
  const auto sum = [&](int i) {
    return half_to_float(static_cast<uint16_t>(a >> i)) + half_to_float(static_cast<uint16_t>(b >> i));
  };
  return uint32_t{float_to_half(sum(0))} | uint32_t{float_to_half(sum(16))} << 16;
}
inline void copies_commit() { emulator::copies_commit(); }
template <int pending>
void copies_wait() {
  emulator::copies_wait(pending);
}

#endif

}  // namespace monolith::cuda
