// Matmul kernels for AArch64, compiled once per instruction set, in matmul/neon.cc and matmul/neoni8mm.cc. This file
// contains the code shared by all kernels, and the kernels for floating-point weights. The kernels for quantized
// weights are in matmul/quants_neon-inl.h, and the byte multiplication is in matmul/products_neon-inl.h. panels.h
// describes the arithmetic and the layout.
//
// A vector holds 4 lanes of a panel. A kernel covers M rows of half a panel at a time. With one or two rows, it covers
// the whole panel, so the weights are read only once and in memory order. With kMaxRows rows, the integer sums, the
// float sums and a group of activations use 20 to 30 of the 32 registers.
//
// There is no software prefetching, and tile sizes were chosen by counting registers and instructions. The kernels have
// not been measured on AArch64 hardware.
//
// The including files must not emit functions that are shared with other files (see matmul/kernels.h).
#pragma once

#include <arm_neon.h>

#include "backend/cpu/matmul/kernels.h"
#include "backend/cpu/unroll.h"

#define EACH_ROW(r) UNROLL for (int r = 0; r < M; ++r)
#define EACH_VECTOR(v) UNROLL for (int v = 0; v < kVectors<M>; ++v)
#define EACH_SUM(v, r) EACH_VECTOR(v) EACH_ROW(r)
// Loops over the panel in steps of kVectors<M> vectors. `first` is the first lane.
#define EACH_PART(first) for (int first = 0; first < kPanelRows && first < tile.lanes; first += 4 * kVectors<M>)

namespace monolith {
namespace {

#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kMaxRows = 6;
#else
constexpr int kMaxRows = 4;
#endif

// Number of vectors of a panel that a kernel for M rows covers at once: those of half a panel or of a whole one.
template <int M>
constexpr int kVectors = M <= 2 ? 4 : 2;

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    float32x4_t v[8];
    // The bit patterns of float magnitudes, compared as integers, have the same order as the floats, with NaN above
    // infinity.
    uint32x4_t amax = vdupq_n_u32(0);
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
      UNROLL for (int i = 0; i < 4; ++i) a[i] =
          vcombine_s16(vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse))),
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
      block->minus_scaled_half_sum[0] = -(block->scale * static_cast<float>(sum0));
      block->minus_scaled_half_sum[1] = -(block->scale * static_cast<float>(sum1));
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

// Float sums for the part of a panel that the kernel covers at once.
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

// Adds the bias and the old output if requested, and stores each output once, for the part that starts at lane `first`.
// Does not access memory beyond the last lane's output.
template <int M>
[[gnu::always_inline]] inline void finish(const PanelTile& tile, int first, const Sums<M>& sums) {
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

// --- numbers ------------------------------------------------------------------------------------------

const uint8_t* array_of(const std::byte* area, size_t offset) {
  return reinterpret_cast<const uint8_t*>(area) + offset;
}
// Converts four binary16 values. The conversion is exact.
[[gnu::always_inline]] inline float32x4_t load_halves(const uint8_t* at) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at)));
}

// --- floating point -----------------------------------------------------------------------------------

// Loads the weights of an even k and of the odd k after it, for the 4 lanes that start at lane `lane`.
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

// Loads codes of an F8_E4M3_128 record, two per lane; the scales are applied separately.
struct F8Weights {
  static constexpr int kPairBytes = 32;
  static float32x4_t load(const uint8_t* at) {  // Returns 2^-8 times the values.
    uint32_t four;
    __builtin_memcpy(&four, at, sizeof four);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
    const uint16x4_t bits = vand_u16(vreinterpret_u16_s16(vshl_n_s16(vget_low_s16(wide), 7)), vdup_n_u16(0xbfff));
    return vcvt_f32_f16(vreinterpret_f16_u16(bits));
  }
};

// Adds the products for two values of k to the sums. `w` points to their weights; a[r] holds four activations of row r,
// of which `pair` (0 or 1) selects two.
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
void floats(const PanelTile& tile) {
  EACH_PART(first) {
    const uint8_t* w = array_of(tile.panel, 0);
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

template <int M>
void f8(const PanelTile& tile) {
  EACH_PART(first) {
    const uint8_t* w = array_of(tile.panel, 0);
    const float* x = reinterpret_cast<const float*>(tile.lines);
    Sums<M> even = zero_sums<M>(), odd = zero_sums<M>();
    for (int64_t record = 0; record < tile.layout->cols / kF8Record; ++record) {
      const float* const scales = reinterpret_cast<const float*>(w) + first;
      w += kF8ScaleBytes;
      for (int line = 0; line < kF8Record / 16; ++line, x += 16 * M) {
        for (int k = 0; k < 16; k += 2, w += F8Weights::kPairBytes) {
          EACH_VECTOR(v) {
            const float32x4_t scale = vld1q_f32(scales + 4 * v);
            const float32x4_t w0 = vmulq_f32(F8Weights::load(w + first + 4 * v), scale);
            const float32x4_t w1 = vmulq_f32(F8Weights::load(w + kPanelRows + first + 4 * v), scale);
            EACH_ROW(r) even.at[v][r] = vfmaq_n_f32(even.at[v][r], w0, x[16 * r + k]);
            EACH_ROW(r) odd.at[v][r] = vfmaq_n_f32(odd.at[v][r], w1, x[16 * r + k + 1]);
          }
        }
      }
    }
    EACH_SUM(v, r) even.at[v][r] = vaddq_f32(even.at[v][r], odd.at[v][r]);
    finish(tile, first, even);
  }
}

}  // namespace
}  // namespace monolith
