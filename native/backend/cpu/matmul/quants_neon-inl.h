// The AArch64 kernel for quantized weights (one template for all types, specialized at compile time by panel_form())
// and the kernel table for an instruction set. Include only in matmul/neon.cc and matmul/neoni8mm.cc.
#pragma once

#include <utility>

#include "backend/cpu/matmul/products_neon-inl.h"

namespace monolith {
namespace {

// Whether weights are multiplied as signed bytes. Only eight-bit codes are multiplied as unsigned bytes, and only if
// the instruction set supports it.
constexpr bool is_signed(PanelForm form) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return form.low_bits < 8;
#else
  return form.low_bits > 0;
#endif
}
// Whether weights are multiplied as the signed integers q. Otherwise they are multiplied as codes, and the sums start
// at -offset * sum a.
constexpr bool is_exact(PanelForm form) { return form.offset == 0 || (form.low_bits == 8 && is_signed(form)); }

// Returns the initial value of a row's sum. For types with two steps per block, `half` selects the first or the last 16
// k.
template <TensorType T>
[[gnu::always_inline]] inline int32_t begin_of(const ActivationBlock& x, int half) {
  constexpr PanelForm form = panel_form(T);
  if constexpr (is_exact(form))
    return 0;
  else if constexpr (form.step == 16) {
    static_assert(form.offset == 32 || form.offset == 4);
    return x.minus_32_sum[half] >> (form.offset == 32 ? 0 : 3);
  } else {
    static_assert(form.offset == 1 || form.offset == 8 || form.offset == 16 || form.offset == 128);
    if constexpr (form.offset <= 8)
      return x.minus_8_sum >> (form.offset == 8 ? 0 : 3);
    else
      return x.minus_128_sum >> (form.offset == 128 ? 0 : 3);
  }
}

template <int kBits>  // Shifts right.
[[gnu::always_inline]] inline uint8x16_t shifted(uint8x16_t v) {
  if constexpr (kBits > 0)
    return vshrq_n_u8(v, kBits);
  else
    return v;
}

// Returns group g of the 32 k at `low` and `high`, for 4 lanes with four bytes each.
template <TensorType T, int g>
[[gnu::always_inline]] inline uint8x16_t weights(const uint8_t* low, const uint8_t* high) {
  constexpr PanelForm form = panel_form(T);
  constexpr int low_at = g * form.low_bits, high_at = g * form.high_bits;
  uint8x16_t code = vld1q_u8(low + 64 * (low_at / 8));
  if constexpr (form.low_bits == 8) return is_signed(form) ? veorq_u8(code, vdupq_n_u8(128)) : code;
  code = shifted<low_at % 8>(code);
  // Unless this field was in the highest bits of the byte, the bits above it belong to other fields and must be masked
  // out.
  bool others_above = low_at % 8 + form.low_bits < 8;
  if constexpr (form.high_bits > 0) {
    // vsli keeps the `low_bits` lowest bits and inserts the other operand above them.
    code = vsliq_n_u8(code, shifted<high_at % 8>(vld1q_u8(high + 64 * (high_at / 8))), form.low_bits);
    others_above = high_at % 8 + form.high_bits < 8 && form.low_bits + form.high_bits < 8;
  }
  if (others_above)
    code = vandq_u8(code, vdupq_n_u8(static_cast<uint8_t>((1 << (form.low_bits + form.high_bits)) - 1)));
  if constexpr (form.levels != PanelForm::kNone)
    code = vreinterpretq_u8_s8(vqtbl1q_s8(vld1q_s8(levels_of(form.levels)), code));
  return code;
}

// Adds the products for 16 k of V vectors to `products`. `half` selects the first or the last 16 k of a block.
template <TensorType T, int half, int M, int V>
[[gnu::always_inline]] inline void add_half(Products<M, V, is_signed(panel_form(T))>& products, const uint8_t* low,
                                            const uint8_t* high, const ActivationBlock* x) {
  products.template load<0>(x, 16 * half);
  UNROLL for (int v = 0; v < V; ++v) products.template add<0>(v, weights<T, 4 * half>(low + 16 * v, high + 16 * v),
                                                              weights<T, 4 * half + 1>(low + 16 * v, high + 16 * v));
  products.template load<1>(x, 16 * half);
  UNROLL for (int v = 0; v < V; ++v) products.template add<1>(v, weights<T, 4 * half + 2>(low + 16 * v, high + 16 * v),
                                                              weights<T, 4 * half + 3>(low + 16 * v, high + 16 * v));
}

// Loads one byte for each of four lanes.
[[gnu::always_inline]] inline uint8x8_t load_4_bytes(const uint8_t* at) {
  uint32_t word;
  __builtin_memcpy(&word, at, sizeof word);
  return vreinterpret_u8_u32(vdup_n_u32(word));
}
[[gnu::always_inline]] inline uint32x4_t load_unsigned(const uint8_t* at) {
  return vmovl_u16(vget_low_u16(vmovl_u8(load_4_bytes(at))));
}
[[gnu::always_inline]] inline int32x4_t load_signed(const uint8_t* at) {
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_4_bytes(at)))));
}

// Returns 2^(e - 128), which is subnormal for e < 2.
[[gnu::always_inline]] inline float32x4_t powers(uint32x4_t e) {
  const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
  const uint32x4_t small = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
  return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

// Computes nvfp4_step() for bytes from nvfp4_scale_bits(). Once shifted to the positions of binary16, whose exponent
// bias is 15, the bits represent 2^-7 times the step.
[[gnu::always_inline]] inline float32x4_t e4m3_steps(const uint8_t* at) {
  const uint16x4_t halves = vshl_n_u16(vget_low_u16(vmovl_u8(load_4_bytes(at))), 7);
  return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(halves)), 0x1p7f);
}

// Returns the steps of four lanes, for the first or the second step of a block. `number` points to the scales of the
// first step.
template <TensorType T, int half = 0>
[[gnu::always_inline]] inline float32x4_t steps(const uint8_t* d, const uint8_t* number) {
  constexpr PanelForm form = panel_form(T);
  number += half * second_scale(form);
  if constexpr (form.scale == PanelForm::kPower)
    return powers(load_unsigned(d));
  else if constexpr (form.scale == PanelForm::kE4m3)
    return e4m3_steps(number);
  else if constexpr (form.scale == PanelForm::kHalf)
    return load_halves(d);
  else if constexpr (form.scale == PanelForm::kSigned)
    return vmulq_f32(load_halves(d), vcvtq_f32_s32(load_signed(number)));
  else {
    uint32x4_t scale = load_unsigned(number);
    if constexpr (form.scale == PanelForm::kOddPair) {
      // Computes 2 s + 1 as (s << 1 & 30) | 1, where s is the low or the high nibble.
      scale = half == 0 ? vshlq_n_u32(scale, 1) : vshrq_n_u32(scale, 3);
      scale = vorrq_u32(vandq_u32(scale, vdupq_n_u32(30)), vdupq_n_u32(1));
    }
    if constexpr (form.scale == PanelForm::kNibble || form.scale == PanelForm::kDelta)
      scale = vandq_u32(scale, vdupq_n_u32(15));
    const float32x4_t step = vmulq_f32(load_halves(d), vcvtq_f32_u32(scale));
    return form.factor == 1 ? step : vmulq_n_f32(step, form.factor);
  }
}
template <TensorType T>
[[gnu::always_inline]] inline float32x4_t floors(const uint8_t* d_min, const uint8_t* number) {
  constexpr PanelForm form = panel_form(T);
  if constexpr (form.scale == PanelForm::kHalf)
    return load_halves(d_min);
  else if constexpr (form.scale == PanelForm::kDelta) {
    // The result is -step / 8, or step / 8 if the highest bit of the byte is set.
    const uint32x4_t sign = vshlq_n_u32(vbicq_u32(vdupq_n_u32(0x80), load_unsigned(number)), 24);
    const float32x4_t eighth = vmulq_n_f32(steps<T>(d_min, number), 0.125f);
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(eighth), sign));
  } else {
    uint32x4_t minimum = load_unsigned(number);
    if constexpr (form.scale == PanelForm::kNibble) minimum = vshrq_n_u32(minimum, 4);
    return vmulq_f32(load_halves(d_min), vcvtq_f32_u32(minimum));
  }
}

template <TensorType T, int M>
void quantized(const PanelTile& tile) {
  constexpr PanelForm form = panel_form(T);
  constexpr PanelRecord record = panel_record(form);
  constexpr int blocks = form.record / 32, numbers = scales_of_block(form) * kPanelRows;
  constexpr int d_bytes = d_size(form);  // Bytes per lane.
  constexpr int minima = minima_at(form);
  EACH_PART(first) {
    const uint8_t* at = array_of(tile.panel, 0);
    const uint8_t* d = array_of(tile.block_scales, tile.layout->d) + d_bytes * first;
    const uint8_t* d_min = array_of(tile.block_scales, tile.layout->d_min) + d_bytes * first;
    const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
    Sums<M> sums = zero_sums<M>();
    for (int64_t records = tile.layout->cols / form.record; records > 0; --records) {
      for (int block = 0; block < blocks; ++block, x += M) {
        const uint8_t* low = at + 4 * first + block * (64 * form.low_bits);
        const uint8_t* high = at + 4 * first + record.high + block * (64 * form.high_bits);
        const uint8_t* number = at + first + record.scales + block * numbers;
        const uint8_t* minimum = at + first + minima + block * numbers;
        if constexpr (form.step == 32) {
          Products<M, kVectors<M>, is_signed(form)> products;
          products.start(x, [](const ActivationBlock& row) { return begin_of<T>(row, 0); });
          add_half<T, 0, M, kVectors<M>>(products, low, high, x);
          add_half<T, 1, M, kVectors<M>>(products, low, high, x);
          EACH_VECTOR(v) {
            const float32x4_t step = steps<T>(d + 4 * d_bytes * v, number + 4 * v);
            EACH_ROW(r)
            sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], vmulq_f32(vcvtq_f32_s32(products.sum(v, r)), step), x[r].scale);
            if constexpr (form.minima) {
              const float32x4_t floor = floors<T>(d_min + 8 * v, minimum + 4 * v);
              EACH_ROW(r) sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], floor, x[r].minus_scaled_sum);
            }
          }
        } else {
          // Processes the panel's vectors one after another, because the registers cannot hold the sums of both halves
          // of a block for all vectors.
          EACH_VECTOR(v) {
            // Forces the compiler to reload the activations for each vector. Keeping them in registers would force the
            // compiler to spill sums.
            asm volatile("" ::: "memory");
            const uint8_t *low_v = low + 16 * v, *high_v = high + 16 * v;
            Products<M, 1, is_signed(form)> products;
            float32x4_t scaled[M];
            products.start(x, [](const ActivationBlock& row) { return begin_of<T>(row, 0); });
            add_half<T, 0, M, 1>(products, low_v, high_v, x);
            const float32x4_t step0 = steps<T>(d + 4 * d_bytes * v, number + 4 * v);
            EACH_ROW(r) scaled[r] = vmulq_f32(vcvtq_f32_s32(products.sum(0, r)), step0);
            products.start(x, [](const ActivationBlock& row) { return begin_of<T>(row, 1); });
            add_half<T, 1, M, 1>(products, low_v, high_v, x);
            const float32x4_t step1 = steps<T, 1>(d + 4 * d_bytes * v, number + 4 * v);
            EACH_ROW(r) {
              scaled[r] = vfmaq_f32(scaled[r], vcvtq_f32_s32(products.sum(0, r)), step1);
              sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], scaled[r], x[r].scale);
            }
            if constexpr (form.minima) {
              UNROLL for (int h = 0; h < 2; ++h) {
                const float32x4_t floor = floors<T>(d_min + 8 * v, minimum + h * kPanelRows + 4 * v);
                EACH_ROW(r) sums.at[v][r] = vfmaq_n_f32(sums.at[v][r], floor, x[r].minus_scaled_half_sum[h]);
              }
            }
          }
        }
      }
      at += record.bytes;
      d += kPanelRows * d_bytes;
      d_min += kPanelRows * d_bytes;
    }
    finish(tile, first, sums);
  }
}

// --- kernel table -------------------------------------------------------------------------------------

// These functions call the kernel for the tile's number of rows.
template <typename Weights, int... kBefore>
[[gnu::always_inline]] inline void floats_by_rows(const PanelTile& tile, std::integer_sequence<int, kBefore...>) {
  static constexpr PanelKernel by_rows[] = {floats<Weights, kBefore + 1>...};
  by_rows[tile.n_rows - 1](tile);
}
template <TensorType T, int... kBefore>
[[gnu::always_inline]] inline void quantized_by_rows(const PanelTile& tile, std::integer_sequence<int, kBefore...>) {
  static constexpr PanelKernel by_rows[] = {quantized<T, kBefore + 1>...};
  by_rows[tile.n_rows - 1](tile);
}
template <typename Weights>
void panel_of_floats(const PanelTile& tile) {
  floats_by_rows<Weights>(tile, std::make_integer_sequence<int, kMaxRows>());
}
template <int... kBefore>
[[gnu::always_inline]] inline void f8_by_rows(const PanelTile& tile, std::integer_sequence<int, kBefore...>) {
  static constexpr PanelKernel by_rows[] = {f8<kBefore + 1>...};
  by_rows[tile.n_rows - 1](tile);
}
void panel_of_f8(const PanelTile& tile) { f8_by_rows(tile, std::make_integer_sequence<int, kMaxRows>()); }
template <TensorType T>
void panel_of(const PanelTile& tile) {
  quantized_by_rows<T>(tile, std::make_integer_sequence<int, kMaxRows>());
}

constexpr MatmulKernels matmul_table(const char* name, std::atomic<uint64_t>* calls) {
  return {
      .name = name,
      .calls = calls,
      .max_tile_rows = kMaxRows,
      .pack = {pack_int8, pack_f32, nullptr},
      .activation = kUsualActivations,
      .panel = {panel_of_floats<F32Weights>,    panel_of_floats<F16Weights>,  panel_of_floats<Bf16Weights>,
                panel_of<TensorType::kQ8_0>,    panel_of<TensorType::kQ4_0>,  panel_of<TensorType::kQ4_1>,
                panel_of<TensorType::kQ5_0>,    panel_of<TensorType::kQ5_1>,  panel_of<TensorType::kIQ4_NL>,
                panel_of<TensorType::kMXFP4>,   panel_of<TensorType::kQ2_K>,  panel_of<TensorType::kQ3_K>,
                panel_of<TensorType::kQ4_K>,    panel_of<TensorType::kQ5_K>,  panel_of<TensorType::kQ6_K>,
                panel_of<TensorType::kIQ4_XS>,  panel_of<TensorType::kIQ1_S>, panel_of<TensorType::kIQ1_M>,
                panel_of<TensorType::kIQ2_XXS>, panel_of<TensorType::kIQ2_S>, panel_of<TensorType::kIQ2_S>,
                panel_of<TensorType::kIQ3_XXS>, panel_of<TensorType::kIQ3_S>, panel_of<TensorType::kTQ2_0>,
                panel_of<TensorType::kTQ2_0>,   panel_of<TensorType::kNVFP4>, panel_of_f8},
  };
}
static_assert(kPanelTypes == 27, "a type needs its kernel here");

}  // namespace
}  // namespace monolith
