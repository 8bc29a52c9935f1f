// The matrix products for AArch64, compiled once per instruction set: matmul_neon.cc, matmul_neoni8mm.cc. How
// bytes are multiplied is in matmul_neon_products-inl.h; arithmetic and layout: strips.h.
//
// Vectors hold 4 lanes of a strip. A kernel covers M rows of half a strip at a time, or of the whole strip
// when there are one or two rows, so that weights then pass only once, in the order of memory. With kMaxRows
// rows the integer sums, the float sums and a group of activations fill 20 to 30 of the 32 registers.
//
// Nothing is prefetched by hand, and tiles were sized by counting registers and instructions: no AArch64
// processor was at hand to measure on.
//
// Only the including file's own functions are emitted here (see matmul_kernels.h).
#pragma once

#include <arm_neon.h>

#include <type_traits>

#include "backend/cpu/matmul_kernels.h"

// Loops over rows must vanish, or the accumulators are an array in memory; -O2 alone leaves them.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define EACH_ROW(r) UNROLL for (int r = 0; r < M; ++r)
#define EACH_PAIR(p) UNROLL for (int p = 0; p < kPairs; ++p)   // of rows
#define EACH_VECTOR(v) UNROLL for (int v = 0; v < kVectors<M>; ++v)
#define EACH_SUM(v, r) EACH_VECTOR(v) EACH_ROW(r)
// Passes over the strip, kVectors<M> vectors from lane `first` at a time.
#define EACH_PART(first) for (int first = 0; first < kStripRows && first < tile.lanes; first += 4 * kVectors<M>)

namespace monolith {
namespace {

#include "backend/cpu/matmul_neon_products-inl.h"

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    float32x4_t v[8];
    uint32x4_t amax = vdupq_n_u32(0);   // as integers, magnitudes order like the floats, NaN above infinity
    UNROLL for (int i = 0; i < 8; ++i) {
      v[i] = vld1q_f32(x + k + 4 * i);
      amax = vmaxq_u32(amax, vandq_u32(vreinterpretq_u32_f32(v[i]), vdupq_n_u32(0x7fffffff)));
    }
    const uint32_t amax_bits = vmaxvq_u32(amax);
    __builtin_memset(out, 0, sizeof(ActivationBlock));
    ActivationBlock* block = reinterpret_cast<ActivationBlock*>(out);
    if (amax_bits >= kInfinityBits) {
      block->scale = __builtin_nanf("");
    } else if (amax_bits >= kSmallestAmaxBits) {
      const float amax_value = __builtin_bit_cast(float, amax_bits);
      const float inverse = 127.0f / amax_value;
      int16x8_t a[4];
      UNROLL for (int i = 0; i < 4; ++i)
        a[i] = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse))),
                            vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse))));
      vst1q_s8(block->a, vcombine_s8(vmovn_s16(a[0]), vmovn_s16(a[1])));
      vst1q_s8(block->a + 16, vcombine_s8(vmovn_s16(a[2]), vmovn_s16(a[3])));
      const int32_t sum0 = vaddlvq_s16(vaddq_s16(a[0], a[1])), sum1 = vaddlvq_s16(vaddq_s16(a[2], a[3]));
      const int32_t sum = sum0 + sum1;
      block->scale = amax_value / 127.0f;
      block->minus_128_sum = -128 * sum;
      block->minus_8_sum = -8 * sum;
      block->minus_32_sum[0] = -32 * sum0;
      block->minus_32_sum[1] = -32 * sum1;
      block->minus_scaled_sum = -(block->scale * static_cast<float>(sum));
    }
  }
}

void pack_f32(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 16, out += line_stride) {
    float* line = reinterpret_cast<float*>(out);
    if (cols - k >= 16) {
      UNROLL for (int i = 0; i < 16; i += 4) vst1q_f32(line + i, vld1q_f32(x + k + i));
    } else {
      for (int64_t i = 0; i < 16; ++i) line[i] = k + i < cols ? x[k + i] : 0.0f;
    }
  }
}

// --- results ------------------------------------------------------------------------------------------

// Float sums of a part of a strip.
template <int M>
struct Sums {
  float32x4_t at[kVectors<M>][M];
};
template <int M>
[[gnu::always_inline]] inline Sums<M> zero_sums() {
  Sums<M> sums;
  EACH_SUM(v, r) sums.at[v][r] = vdupq_n_f32(0);
  return sums;
}

// Adds bias and the old output as the target asks, and stores each output once: the part that begins at lane
// `first`. Nothing past the last lane is touched.
template <int M>
[[gnu::always_inline]] inline void finish(const StripTile& tile, int first, const Sums<M>& sums) {
  EACH_VECTOR(v) {
    const int lane = first + 4 * v, lanes = tile.lanes - lane;
    float* out = tile.out + lane;
    if (lanes >= 4) {
      UNROLL for (int r = 0; r < M; ++r, out += tile.out_stride) {
        float32x4_t value = sums.at[v][r];
        if (tile.bias) value = vaddq_f32(value, vld1q_f32(tile.bias + lane));
        if (tile.add_to_out) value = vaddq_f32(vld1q_f32(out), value);
        vst1q_f32(out, value);
      }
    } else if (lanes > 0) {
      UNROLL for (int r = 0; r < M; ++r, out += tile.out_stride) {
        float values[4];
        vst1q_f32(values, sums.at[v][r]);
        for (int i = 0; i < lanes; ++i) {
          float value = values[i];
          if (tile.bias) value = value + tile.bias[lane + i];
          if (tile.add_to_out) value = out[i] + value;
          out[i] = value;
        }
      }
    }
  }
}

// --- quantized ----------------------------------------------------------------------------------------

const uint8_t* array_of(const StripTile& tile, size_t offset) {
  return reinterpret_cast<const uint8_t*>(tile.strip) + offset;
}
const ActivationBlock* blocks_of(const StripTile& tile) {
  return reinterpret_cast<const ActivationBlock*>(tile.lines);
}
// Four lanes of what is stored as 2, 1 and 1 bytes, exactly.
[[gnu::always_inline]] inline float32x4_t load_halves(const uint8_t* at) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at)));
}
[[gnu::always_inline]] inline uint8x8_t load_4_bytes(const uint8_t* at) {
  uint32_t word;
  __builtin_memcpy(&word, at, sizeof word);
  return vreinterpret_u8_u32(vdup_n_u32(word));
}
[[gnu::always_inline]] inline float32x4_t load_unsigned_bytes(const uint8_t* at) {
  return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_4_bytes(at)))));
}
[[gnu::always_inline]] inline float32x4_t load_signed_bytes(const uint8_t* at) {
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_4_bytes(at))))));
}

// products += the 32 four-bit weights at `w`, without their offset.
template <int M>
[[gnu::always_inline]] inline void add_nibbles(Products<M, kVectors<M>>& products, const uint8_t* w, const ActivationBlock* x) {
  const uint8x16_t nibble = vdupq_n_u8(15);
  UNROLL for (int half = 0; half < 2; ++half, w += 128) {
    products.template load<0>(x, 16 * half);
    EACH_VECTOR(v) {
      const uint8x16_t both = vld1q_u8(w + 16 * v);
      products.template add<0>(v, vandq_u8(both, nibble), vshrq_n_u8(both, 4));
    }
    products.template load<1>(x, 16 * half);
    EACH_VECTOR(v) {
      const uint8x16_t both = vld1q_u8(w + 64 + 16 * v);
      products.template add<1>(v, vandq_u8(both, nibble), vshrq_n_u8(both, 4));
    }
  }
}

// sums of vector v += products * step * the rows' scales.
template <int M>
[[gnu::always_inline]] inline void add_scaled(Sums<M>& sums, int v, const Products<M, kVectors<M>>& products,
                                              float32x4_t step, const ActivationBlock* x) {
  EACH_ROW(r)
    sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], vmulq_f32(vcvtq_f32_s32(products.sum(v, r)), step), x[r].scale);
}

template <int M>
void q8_0(const StripTile& tile) {
  EACH_PART(first) {
    const uint8_t* w = array_of(tile, tile.layout->values) + 4 * first;
    const uint8_t* d = array_of(tile, tile.layout->d) + 2 * first;
    const ActivationBlock* x = blocks_of(tile);
    Sums<M> sums = zero_sums<M>();
    for (int64_t block = tile.layout->cols / 32; block > 0; --block, w += 512, d += 32, x += M) {
      Products<M, kVectors<M>> products;
      // q + 128 as it is stored, or q itself.
      products.start(x, [](const ActivationBlock& row) { return kUnsignedWeights ? row.minus_128_sum : 0; });
      const auto load = [&](int at) {
        return kUnsignedWeights ? vld1q_u8(w + at) : veorq_u8(vld1q_u8(w + at), vdupq_n_u8(128));
      };
      UNROLL for (int half = 0; half < 2; ++half) {
        const int at = 256 * half;
        products.template load<0>(x, 16 * half);
        EACH_VECTOR(v) products.template add<0>(v, load(at + 16 * v), load(at + 64 + 16 * v));
        products.template load<1>(x, 16 * half);
        EACH_VECTOR(v) products.template add<1>(v, load(at + 128 + 16 * v), load(at + 192 + 16 * v));
      }
      EACH_VECTOR(v) add_scaled<M>(sums, v, products, load_halves(d + 8 * v), x);
    }
    finish(tile, first, sums);
  }
}

template <int M>
void q4_0(const StripTile& tile) {
  EACH_PART(first) {
    const uint8_t* w = array_of(tile, tile.layout->values) + 4 * first;
    const uint8_t* d = array_of(tile, tile.layout->d) + 2 * first;
    const ActivationBlock* x = blocks_of(tile);
    Sums<M> sums = zero_sums<M>();
    for (int64_t block = tile.layout->cols / 32; block > 0; --block, w += 256, d += 32, x += M) {
      Products<M, kVectors<M>> products;
      products.start(x, [](const ActivationBlock& row) { return row.minus_8_sum; });
      add_nibbles<M>(products, w, x);
      EACH_VECTOR(v) add_scaled<M>(sums, v, products, load_halves(d + 8 * v), x);
    }
    finish(tile, first, sums);
  }
}

template <int M>
void q4_k(const StripTile& tile) {
  const StripLayout& layout = *tile.layout;
  EACH_PART(first) {
    const uint8_t* w = array_of(tile, layout.values) + 4 * first;
    const uint8_t *scale = array_of(tile, layout.scales) + first, *minimum = array_of(tile, layout.minima) + first;
    const uint8_t *d = array_of(tile, layout.d) + 2 * first, *d_min = array_of(tile, layout.d_min) + 2 * first;
    const ActivationBlock* x = blocks_of(tile);
    Sums<M> sums = zero_sums<M>();
    for (int64_t super = layout.cols / 256; super > 0; --super, d += 32, d_min += 32) {
      for (int block = 0; block < 8; ++block, w += 256, scale += 16, minimum += 16, x += M) {
        Products<M, kVectors<M>> products;
        products.start(x, [](const ActivationBlock&) { return 0; });
        add_nibbles<M>(products, w, x);
        EACH_VECTOR(v) {
          add_scaled<M>(sums, v, products, vmulq_f32(load_halves(d + 8 * v), load_unsigned_bytes(scale + 4 * v)), x);
          const float32x4_t floor = vmulq_f32(load_halves(d_min + 8 * v), load_unsigned_bytes(minimum + 4 * v));
          EACH_ROW(r) sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], floor, x[r].minus_scaled_sum);
        }
      }
    }
    finish(tile, first, sums);
  }
}

// products += 16 six-bit weights of one vector: two vectors of nibbles, one of upper pairs.
template <int M>
[[gnu::always_inline]] inline void add_six_bits(Products<M, 1>& products, const uint8_t* low, const uint8_t* high,
                                                const ActivationBlock* x, int k) {
  const uint8x16_t six = vdupq_n_u8(63);
  const uint8x16_t pairs = vld1q_u8(high), low0 = vld1q_u8(low), low1 = vld1q_u8(low + 64);
  // vsli keeps the nibble and puts the pair above it.
  products.template load<0>(x, k);
  products.template add<0>(0, vandq_u8(vsliq_n_u8(low0, pairs, 4), six),
                           vandq_u8(vsliq_n_u8(vshrq_n_u8(low0, 4), vshrq_n_u8(pairs, 2), 4), six));
  products.template load<1>(x, k);
  products.template add<1>(0, vandq_u8(vsliq_n_u8(low1, vshrq_n_u8(pairs, 4), 4), six),
                           vsliq_n_u8(vshrq_n_u8(low1, 4), vshrq_n_u8(pairs, 6), 4));
}

// One vector after another: two halves' sums for all of them would not fit into the registers.
template <int M>
void q6_k(const StripTile& tile) {
  const StripLayout& layout = *tile.layout;
  EACH_PART(first) {
    const uint8_t *low = array_of(tile, layout.values) + 4 * first, *high = array_of(tile, layout.high) + 4 * first;
    const uint8_t *scale = array_of(tile, layout.scales) + first, *d_at = array_of(tile, layout.d) + 2 * first;
    const ActivationBlock* x = blocks_of(tile);
    Sums<M> sums = zero_sums<M>();
    for (int64_t super = layout.cols / 256; super > 0; --super, d_at += 32) {
      for (int block = 0; block < 8; ++block, low += 256, high += 128, scale += 32, x += M) {
        EACH_VECTOR(v) {
          // Activations are read anew for each vector: kept, they would push sums out of the registers.
          asm volatile("" ::: "memory");
          const float32x4_t d = load_halves(d_at + 8 * v);
          Products<M, 1> products;
          products.start(x, [](const ActivationBlock& row) { return row.minus_32_sum[0]; });
          add_six_bits<M>(products, low + 16 * v, high + 16 * v, x, 0);
          const float32x4_t step0 = vmulq_f32(d, load_signed_bytes(scale + 4 * v));
          float32x4_t scaled[M];
          EACH_ROW(r) scaled[r] = vmulq_f32(vcvtq_f32_s32(products.sum(0, r)), step0);
          products.start(x, [](const ActivationBlock& row) { return row.minus_32_sum[1]; });
          add_six_bits<M>(products, low + 128 + 16 * v, high + 64 + 16 * v, x, 16);
          const float32x4_t step1 = vmulq_f32(d, load_signed_bytes(scale + 16 + 4 * v));
          EACH_ROW(r) {
            scaled[r] = vfmaq_f32(scaled[r], vcvtq_f32_s32(products.sum(0, r)), step1);
            sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], scaled[r], x[r].scale);
          }
        }
      }
    }
    finish(tile, first, sums);
  }
}

// --- floating point -----------------------------------------------------------------------------------

// Weights of an even and the following odd k, 4 lanes from lane `lane`.
struct F32Weights {
  static constexpr int kPairBytes = 128;
  static float32x4_t load(const uint8_t* at) { return vreinterpretq_f32_u8(vld1q_u8(at)); }
  static float32x4_t even(const uint8_t* pair, int lane) { return load(pair + 4 * lane); }
  static float32x4_t odd(const uint8_t* pair, int lane) { return load(pair + 64 + 4 * lane); }
};
struct F16Weights {
  static constexpr int kPairBytes = 64;
  static float32x4_t even(const uint8_t* pair, int lane) { return load_halves(pair + 2 * lane); }
  static float32x4_t odd(const uint8_t* pair, int lane) { return load_halves(pair + 32 + 2 * lane); }
};
struct Bf16Weights {
  static constexpr int kPairBytes = 64;
  static uint32x4_t load(const uint8_t* at) { return vreinterpretq_u32_u8(vld1q_u8(at)); }
  static float32x4_t even(const uint8_t* pair, int lane) {
    return vreinterpretq_f32_u32(vshlq_n_u32(load(pair + 4 * lane), 16));
  }
  static float32x4_t odd(const uint8_t* pair, int lane) {
    return vreinterpretq_f32_u32(vandq_u32(load(pair + 4 * lane), vdupq_n_u32(0xffff0000)));
  }
};

// Sums += two pairs of k: weights at `w`, a[r] four activations of row r of which `pair` (0 or 1) picks two.
template <typename Weights, int pair, int M>
[[gnu::always_inline]] inline void add_pair(Sums<M>& even, Sums<M>& odd, const uint8_t* w, int first,
                                            const float32x4_t (&a)[M]) {
  EACH_VECTOR(v) {
    const float32x4_t w0 = Weights::even(w, first + 4 * v), w1 = Weights::odd(w, first + 4 * v);
    EACH_ROW(r) even.at[v][r] = vfmaq_laneq_f32(even.at[v][r], w0, a[r], 2 * pair);
    EACH_ROW(r) odd.at[v][r] = vfmaq_laneq_f32(odd.at[v][r], w1, a[r], 2 * pair + 1);
  }
}

template <typename Weights, int M>
void floats(const StripTile& tile) {
  EACH_PART(first) {
    const uint8_t* w = array_of(tile, 0);
    const float* x = reinterpret_cast<const float*>(tile.lines);
    Sums<M> even = zero_sums<M>(), odd = zero_sums<M>();
    const int64_t lines = (tile.layout->cols + 15) / 16;
    for (int64_t line = 0; line < lines; ++line, x += 16 * M) {
      for (int k = 0; k < 16; k += 4, w += 2 * Weights::kPairBytes) {
        float32x4_t a[M];
        EACH_ROW(r) a[r] = vld1q_f32(x + 16 * r + k);
        add_pair<Weights, 0, M>(even, odd, w, first, a);
        add_pair<Weights, 1, M>(even, odd, w + Weights::kPairBytes, first, a);
      }
    }
    EACH_SUM(v, r) even.at[v][r] = vaddq_f32(even.at[v][r], odd.at[v][r]);
    finish(tile, first, even);
  }
}
template <int M> void f32(const StripTile& tile) { floats<F32Weights, M>(tile); }
template <int M> void f16(const StripTile& tile) { floats<F16Weights, M>(tile); }
template <int M> void bf16(const StripTile& tile) { floats<Bf16Weights, M>(tile); }

// Defines kernel_by_rows(tile): kernel<M> for the tile's number of rows.
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define BY_ROWS(kernel)                                                                \
  constexpr StripKernel kernel##_rows[kMaxRows] = {kernel<1>, kernel<2>, kernel<3>,    \
                                                   kernel<4>, kernel<5>, kernel<6>};   \
  void kernel##_by_rows(const StripTile& tile) { kernel##_rows[tile.n_rows - 1](tile); }
#else
#define BY_ROWS(kernel)                                                                         \
  constexpr StripKernel kernel##_rows[kMaxRows] = {kernel<1>, kernel<2>, kernel<3>, kernel<4>}; \
  void kernel##_by_rows(const StripTile& tile) { kernel##_rows[tile.n_rows - 1](tile); }
#endif
BY_ROWS(f32)
BY_ROWS(f16)
BY_ROWS(bf16)
BY_ROWS(q8_0)
BY_ROWS(q4_0)
BY_ROWS(q4_k)
BY_ROWS(q6_k)

// The table of this instruction set.
constexpr MatmulKernels matmul_table(const char* name, std::atomic<uint64_t>* calls) {
  return {
      .name = name,
      .calls = calls,
      .max_tile_rows = kMaxRows,
      .pack = {pack_int8, pack_f32, nullptr},
      .activation = {ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kInt8,
                     ActivationKind::kInt8, ActivationKind::kInt8, ActivationKind::kInt8},
      .strip = {f32_by_rows, f16_by_rows, bf16_by_rows, q8_0_by_rows, q4_0_by_rows, q4_k_by_rows, q6_k_by_rows},
  };
}

}  // namespace
}  // namespace monolith
