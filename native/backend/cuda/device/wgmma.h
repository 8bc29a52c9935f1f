// Hopper features: shared-memory barriers that count arrivals and bytes (mbarrier), bulk asynchronous copies that
// signal these barriers, and warpgroup matrix multiply (wgmma) with A in registers and B in shared memory. On the GPU
// they are inline PTX; emulator_hopper.cc produces the same results. To expose races, the emulator completes copies as
// late as a barrier allows, and computes products only when the kernel waits for them. Until then, the registers of A
// must not change.
//
// Names and layouts follow the PTX ISA: "mbarrier", "cp.async.bulk", "Asynchronous warpgroup level matrix
// instructions". wgmma requires code compiled for compute capability 9.0 only (sm_90a). In all other code
// MONOLITH_WGMMA is 0 and kernels that need it have empty bodies. The caller must check the device before it launches
// such a kernel.
//
// Fragments: warp w of the warpgroup holds rows 16w .. 16w + 15 of A and D, laid out as in device/tensor.h. B is
// K-major without swizzle: core matrices of 8 columns x 16 bytes of k, each stored as 128 contiguous bytes.
#pragma once

#include "backend/cuda/device/language.h"

#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MONOLITH_WGMMA 1
#else
#define MONOLITH_WGMMA 0
#endif

namespace monolith::cuda {

inline constexpr int kWarpgroup = 4 * kWarp;

// A barrier in shared memory. A phase ends when the number of arrivals set by barrier_init() is reached and all
// announced bytes have arrived. The next phase starts immediately.
struct alignas(8) Barrier {
  uint64_t state;
};

#if defined(__CUDACC__) && MONOLITH_WGMMA

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Call from one thread, before barrier_inits_done() and a block-wide barrier.
__device__ __forceinline__ void barrier_init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_inits_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// Arrives at the barrier and increases the expected byte count of the current phase by `bytes`.
__device__ __forceinline__ void barrier_arrive_expecting(Barrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
// Waits until the phase with this parity has ended. The first phase has parity 0, the second has 1, the third has 0,
// and so on.
__device__ __forceinline__ void barrier_wait(Barrier& barrier, int parity) {
  uint32_t done = 0;
  while (done == 0)
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
}
// Starts an asynchronous copy of `bytes` bytes, a multiple of 16. Both addresses are 16-byte aligned. When the bytes
// have arrived, they are counted towards the barrier's expected byte count.
template <Source kSource = Source::kComputed>
__device__ __forceinline__ void copy_bulk(void* to_shared, const void* from, int bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to_shared)),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

// Changes the number of registers per thread of a warpgroup. give_registers() lowers it; take_registers() raises it and
// waits until enough registers have been released. Counts are multiples of 8. All warps of the group must call these
// functions together.
template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Returns the wgmma descriptor of operand B in shared memory. `k_bytes` is the stride between core matrices along k.
// `column_bytes` is the stride between groups of 8 columns.
__device__ __forceinline__ uint64_t operand_at(const void* shared, int k_bytes, int column_bytes) {
  return (shared_address(shared) & 0x3ffffu) >> 4 | static_cast<uint64_t>(k_bytes >> 4) << 16 |
         static_cast<uint64_t>(column_bytes >> 4) << 32;
}

// Call before the first product of a batch and after registers of its operands have changed.
__device__ __forceinline__ void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Closes the current batch of products.
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all batches except at most the latest `pending` ones are complete. The registers and shared memory of the
// operands of completed batches may then be reused.
template <int pending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Waits for all batches. `sums` is valid only after that.
template <int kQuads>
__device__ __forceinline__ void products_wait(float (&sums)[kQuads][4]) {
  products_wait<0>();
#pragma unroll
  for (int i = 0; i < kQuads; ++i)  // Keeps the compiler from moving reads of the sums before the wait.
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
}

// Assembler operands of the accumulators for N columns, starting at %0.
#define MONOLITH_SUMS_8 "%0, %1, %2, %3"
#define MONOLITH_SUMS_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MONOLITH_SUMS_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MONOLITH_SUMS_64                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MONOLITH_SUMS_128                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MONOLITH_SUMS_192                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MONOLITH_SUMS_256                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MONOLITH_QUAD(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define MONOLITH_QUADS_8 MONOLITH_QUAD(0)
#define MONOLITH_QUADS_16 MONOLITH_QUAD(0), MONOLITH_QUAD(1)
#define MONOLITH_QUADS_32 MONOLITH_QUAD(0), MONOLITH_QUAD(1), MONOLITH_QUAD(2), MONOLITH_QUAD(3)
#define MONOLITH_FOUR_QUADS(i) MONOLITH_QUAD(i), MONOLITH_QUAD(i + 1), MONOLITH_QUAD(i + 2), MONOLITH_QUAD(i + 3)
#define MONOLITH_QUADS_64 MONOLITH_FOUR_QUADS(0), MONOLITH_FOUR_QUADS(4)
#define MONOLITH_QUADS_128 MONOLITH_QUADS_64, MONOLITH_FOUR_QUADS(8), MONOLITH_FOUR_QUADS(12)
#define MONOLITH_QUADS_192 MONOLITH_QUADS_128, MONOLITH_FOUR_QUADS(16), MONOLITH_FOUR_QUADS(20)
#define MONOLITH_QUADS_256 \
  MONOLITH_QUADS_128, MONOLITH_FOUR_QUADS(16), MONOLITH_FOUR_QUADS(20), MONOLITH_FOUR_QUADS(24), MONOLITH_FOUR_QUADS(28)

// Computes d = A B (plus d if `add` is set) for 64 rows, N columns and 16 values of k. The arguments after N are the
// type and the operand numbers that follow the accumulators.
#define MONOLITH_PRODUCT(N, type, a0, a1, a2, a3, b, p)                                               \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #p                                          \
               ", 0;\n"                                                                               \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" MONOLITH_SUMS_##N \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", keep, 1, 1, 0;\n}"              \
               : MONOLITH_QUADS_##N                                                                   \
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(operand), "r"(static_cast<int>(add)))

template <bool kBfloat16, int kQuads>
__device__ __forceinline__ void product(float (&d)[kQuads][4], const Words4& a, uint64_t operand, bool add) {
  static_assert(kQuads == 1 || kQuads == 2 || kQuads == 4 || kQuads == 8 || kQuads == 16 || kQuads == 24 ||
                kQuads == 32);
#define MONOLITH_BOTH_TYPES(N, a0, a1, a2, a3, b, p)                                             \
  if constexpr (kQuads * 8 == N && kBfloat16) MONOLITH_PRODUCT(N, "bf16", a0, a1, a2, a3, b, p); \
  if constexpr (kQuads * 8 == N && !kBfloat16) MONOLITH_PRODUCT(N, "f16", a0, a1, a2, a3, b, p)
  MONOLITH_BOTH_TYPES(8, 4, 5, 6, 7, 8, 9);
  MONOLITH_BOTH_TYPES(16, 8, 9, 10, 11, 12, 13);
  MONOLITH_BOTH_TYPES(32, 16, 17, 18, 19, 20, 21);
  MONOLITH_BOTH_TYPES(64, 32, 33, 34, 35, 36, 37);
  MONOLITH_BOTH_TYPES(128, 64, 65, 66, 67, 68, 69);
  MONOLITH_BOTH_TYPES(192, 96, 97, 98, 99, 100, 101);
  MONOLITH_BOTH_TYPES(256, 128, 129, 130, 131, 132, 133);
#undef MONOLITH_BOTH_TYPES
}

#elif !defined(__CUDACC__)

namespace emulator {
void barrier_init(uint64_t& state, int arrivals);
void barrier_arrive(uint64_t& state, int bytes);
void barrier_wait(uint64_t& state, int parity);
void copy_bulk(void* to_shared, const void* from, int bytes, uint64_t& state);
uint64_t operand_at(const void* shared, int k_bytes, int column_bytes);
void product(float* sums, int quads, const Words4& a, uint64_t operand, bool add, float (*decode)(uint16_t));
void products_fence();
void products_commit();
void products_wait(int pending);
}  // namespace emulator

inline void barrier_init(Barrier& barrier, int arrivals) { emulator::barrier_init(barrier.state, arrivals); }
inline void barrier_inits_done() {}
inline void barrier_arrive(Barrier& barrier) { emulator::barrier_arrive(barrier.state, 0); }
inline void barrier_arrive_expecting(Barrier& barrier, int bytes) { emulator::barrier_arrive(barrier.state, bytes); }
inline void barrier_wait(Barrier& barrier, int parity) { emulator::barrier_wait(barrier.state, parity); }
template <Source kSource = Source::kComputed>
void copy_bulk(void* to_shared, const void* from, int bytes, Barrier& barrier) {
  check_source(kSource);
  emulator::copy_bulk(to_shared, from, bytes, barrier.state);
}
template <int kCount>
void give_registers() {}
template <int kCount>
void take_registers() {}
inline uint64_t operand_at(const void* shared, int k_bytes, int column_bytes) {
  return emulator::operand_at(shared, k_bytes, column_bytes);
}
inline void products_fence() { emulator::products_fence(); }
inline void products_commit() { emulator::products_commit(); }
template <int pending>
void products_wait() {
  emulator::products_wait(pending);
}
template <int kQuads>
void products_wait(float (&)[kQuads][4]) {
  products_wait<0>();
}
template <bool kBfloat16, int kQuads>
void product(float (&d)[kQuads][4], const Words4& a, uint64_t operand, bool add) {
  emulator::product(&d[0][0], kQuads, a, operand, add, [](uint16_t bits) {
    return kBfloat16 ? ::monolith::bfloat16_to_float(bits) : ::monolith::half_to_float(bits);
  });
}

#endif

}  // namespace monolith::cuda
