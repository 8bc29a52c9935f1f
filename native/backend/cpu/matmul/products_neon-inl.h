// Byte multiplication on AArch64, the only part that differs between its instruction sets.
//
// SDOT and USDOT (by element) add four products to each lane: a register holds 16 activations, and each instruction
// uses one group of four of them for all lanes. Codes of up to seven bits can be treated as signed or unsigned. Codes
// of eight bits, which are stored with an offset of 128, become signed by flipping the highest bit; with USDOT
// (FEAT_I8MM), they are used unchanged.
//
// SMMLA and USMMLA (FEAT_I8MM) multiply 2 lanes x 8 k by 8 k x 2 rows, which is twice as many products as a dot product
// instruction computes. The layout stores 4 k of a lane together, so two vectors are zipped to form the operands. For a
// pair of rows, 2 zips and 2 multiplications replace 4 dot products, which is worthwhile from the second pair on.
//
// Products<M, V, kSigned> holds the integer sums of M rows with V vectors of 4 lanes, for signed or unsigned weights:
//   start(x, constant)   initializes the sums of every row r to constant(x[r])
//   load<step>(x, k)     selects the activations that add() multiplies: of the 16 activations of each row that start at
//                        k, the first 8 (step 0) or the last 8 (step 1). Step 1 follows step 0 with the same k.
//   add<step>(v, w0, w1) adds the products of these activations with vector v's weights for the first 4 k (w0) and for
//                        the last 4 k (w1)
//   sum(v, r)            returns the four lanes of row r
#pragma once

#include <type_traits>

#include "backend/cpu/matmul/neon-inl.h"

#define EACH_PAIR(p) UNROLL for (int p = 0; p < kPairs; ++p)  // Pairs of rows.

namespace monolith {
namespace {

template <bool kSigned, int lane>
[[gnu::always_inline]] inline int32x4_t dot4(int32x4_t sum, uint8x16_t w, int8x16_t a) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  if constexpr (!kSigned)
    return vusdotq_laneq_s32(sum, w, a, lane);
  else
#endif
    return vdotq_laneq_s32(sum, vreinterpretq_s8_u8(w), a, lane);
}

template <int M, int V, bool kSigned>
class DotProducts {
 public:
  template <typename Constant>
  [[gnu::always_inline]] void start(const ActivationBlock* x, Constant constant) {
    UNROLL for (int v = 0; v < V; ++v) EACH_ROW(r) sums_[v][r] = vdupq_n_s32(constant(x[r]));
  }
  template <int step>
  [[gnu::always_inline]] void load(const ActivationBlock* x, int k) {
    if constexpr (step == 0) EACH_ROW(r) a_[r] = vld1q_s8(x[r].a + k);  // Loads 16 activations, for both steps.
  }
  template <int step>
  [[gnu::always_inline]] void add(int v, uint8x16_t w0, uint8x16_t w1) {
    EACH_ROW(r) sums_[v][r] = dot4<kSigned, 2 * step>(sums_[v][r], w0, a_[r]);
    EACH_ROW(r) sums_[v][r] = dot4<kSigned, 2 * step + 1>(sums_[v][r], w1, a_[r]);
  }
  [[gnu::always_inline]] int32x4_t sum(int v, int r) const { return sums_[v][r]; }

 private:
  int32x4_t sums_[V][M];
  int8x16_t a_[M];
};

#if defined(__ARM_FEATURE_MATMUL_INT8)

template <int M, int V, bool kSigned>
class MatrixProducts {
 public:
  template <typename Constant>
  [[gnu::always_inline]] void start(const ActivationBlock* x, Constant constant) {
    EACH_PAIR(p) {
      const int32x4_t begin = vzip1q_s32(vdupq_n_s32(constant(x[2 * p])), vdupq_n_s32(constant(x[second(p)])));
      UNROLL for (int v = 0; v < V; ++v) sums_[v][p][0] = sums_[v][p][1] = begin;
    }
  }
  template <int step>
  [[gnu::always_inline]] void load(const ActivationBlock* x, int k) {
    EACH_PAIR(p)
    a_[p] = vcombine_s8(vld1_s8(x[2 * p].a + k + 8 * step), vld1_s8(x[second(p)].a + k + 8 * step));
  }
  template <int step>
  [[gnu::always_inline]] void add(int v, uint8x16_t w0, uint8x16_t w1) {
    const uint32x4_t words0 = vreinterpretq_u32_u8(w0), words1 = vreinterpretq_u32_u8(w1);
    const uint8x16_t low = vreinterpretq_u8_u32(vzip1q_u32(words0, words1));
    const uint8x16_t high = vreinterpretq_u8_u32(vzip2q_u32(words0, words1));
    EACH_PAIR(p) {
      sums_[v][p][0] = multiply(sums_[v][p][0], low, a_[p]);
      sums_[v][p][1] = multiply(sums_[v][p][1], high, a_[p]);
    }
  }
  [[gnu::always_inline]] int32x4_t sum(int v, int r) const {
    const int32x4_t low = sums_[v][r / 2][0], high = sums_[v][r / 2][1];
    return r % 2 == 0 ? vuzp1q_s32(low, high) : vuzp2q_s32(low, high);
  }

 private:
  static constexpr int kPairs = (M + 1) / 2;
  // With an odd number of rows, the last row is paired with itself.
  static constexpr int second(int p) { return 2 * p + 1 < M ? 2 * p + 1 : 2 * p; }

  [[gnu::always_inline]] static int32x4_t multiply(int32x4_t sum, uint8x16_t w, int8x16_t a) {
    if constexpr (kSigned)
      return vmmlaq_s32(sum, vreinterpretq_s8_u8(w), a);
    else
      return vusmmlaq_s32(sum, w, a);
  }

  // Sums for lanes 0 and 1 of a vector, and for lanes 2 and 3, as 2 x 2 matrices [lane][row].
  int32x4_t sums_[V][kPairs][2];
  int8x16_t a_[kPairs];  // 8 k of the first row, then 8 k of the second.
};

template <int M, int V, bool kSigned>
using Products = std::conditional_t<(M >= 4), MatrixProducts<M, V, kSigned>, DotProducts<M, V, kSigned>>;

#else

template <int M, int V, bool kSigned>
using Products = DotProducts<M, V, kSigned>;

#endif

}  // namespace
}  // namespace monolith
