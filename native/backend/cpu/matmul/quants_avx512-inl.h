// The AVX-512 VNNI kernel for quantized weights: one template for all types, specialized at compile time by
// panel_form(). Include only in {blocks,kquants,expanded}_avx512.cc.
//
// A kernel covers one panel and M rows. M integer and M float accumulators are kept in registers, along with one vector
// of weights, so each weight is loaded and unpacked once and used M times. With kMaxRows = 12, these take 26 of the 32
// registers; types with two steps per block need most of the rest. vpdpbusd multiplies unsigned by signed bytes, so
// weights are passed as q + bias, and the sums start at -bias * sum a.
//
// Zen 4 issues one 512-bit vpdpbusd per cycle, so 64 multiply-adds per cycle are the upper bound. For each row, a block
// takes eight of these, plus one multiplication and one fma on the same pipes (Q8_0, Q4_0), plus one more fma if there
// are minima or a second step.
//
// Zen 5 issues two vpdpbusd and two loads per cycle. Each vpdpbusd loads its activation from memory, so loads become
// the bottleneck. A pair kernel covers two panels and half as many rows, so each loaded activation is used twice. With
// weights in the L2 cache, 12 rows of one panel reach 89 multiply-adds per cycle, and 6 rows of two panels reach 102.
// The latter saturates the pipes with eight vpdpbusd, a multiplication and an fma per block.
#pragma once

#include "backend/cpu/matmul/avx512-inl.h"
#include "backend/cpu/matmul/quants.h"

namespace monolith {
namespace {

// Offset added to q to obtain an unsigned byte. The activation lines must contain the sum of the activations times this
// offset. They contain it only for some offsets. If a type's own offset is one of these, it is used. Other types with
// two steps per block use 32, or 64 if their levels require it; types with one step use 128.
constexpr int bias_of(PanelForm form) {
  if (form.levels == PanelForm::kNone && form.offset == 0) return 0;
  if (form.step == 16) return form.levels != PanelForm::kNone && largest_level(form.levels) > 32 ? 64 : 32;
  return form.offset == 8 || form.offset == 1 ? form.offset : 128;
}
// Returns -bias times the sum of the activations, for a block or one of its halves.
template <TensorType T, int half>
[[gnu::always_inline]] inline int32_t minus_bias(const ActivationBlock& x) {
  constexpr int bias = bias_of(panel_form(T));
  if constexpr (panel_form(T).step == 16)
    return x.minus_32_sum[half] * (bias / 32);
  else
    return bias == 128 ? x.minus_128_sum : x.minus_8_sum >> (bias == 8 ? 0 : 3);
}

template <int kShift>  // Shifts left, or right if kShift is negative. Bits cross byte boundaries.
[[gnu::always_inline]] inline __m512i shifted(__m512i v) {
  if constexpr (kShift > 0)
    return _mm512_slli_epi16(v, kShift);
  else if constexpr (kShift < 0)
    return _mm512_srli_epi16(v, -kShift);
  else
    return v;
}

// Returns group g of the 32 k at `low` and `high`: four unsigned bytes, q + bias, per lane.
template <TensorType T, int g>
[[gnu::always_inline]] inline __m512i weights(const std::byte* low, const std::byte* high) {
  constexpr PanelForm form = panel_form(T);
  constexpr int bias = bias_of(form), low_at = g * form.low_bits, high_at = g * form.high_bits;
  __m512i code = shifted<-(low_at % 8)>(load_bytes(low + 64 * (low_at / 8)));
  const __m512i low_mask = _mm512_set1_epi8(static_cast<char>((1 << form.low_bits) - 1));
  if constexpr (form.high_bits > 0) {
    const __m512i high_mask = _mm512_set1_epi8(static_cast<char>(((1 << form.high_bits) - 1) << form.low_bits));
    const __m512i bits = shifted<form.low_bits - high_at % 8>(load_bytes(high + 64 * (high_at / 8)));
    // Computes (code & low_mask) | (bits & high_mask).
    code = _mm512_ternarylogic_epi32(code, low_mask, _mm512_and_si512(bits, high_mask), 0xea);
  } else if constexpr (form.low_bits < 8) {
    code = _mm512_and_si512(code, low_mask);
  }
  if constexpr (form.levels != PanelForm::kNone) {
    const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels_of(form.levels)));
    static_assert(bias >= largest_level(form.levels));
    const __m512i table = _mm512_add_epi8(_mm512_broadcast_i32x4(levels), _mm512_set1_epi8(static_cast<char>(bias)));
    return _mm512_shuffle_epi8(table, code);
  } else if constexpr (bias != form.offset) {
    return _mm512_add_epi8(code, _mm512_set1_epi8(static_cast<char>(bias - form.offset)));
  } else {
    return code;
  }
}

// Adds the products of weight groups kFirst .. kLast - 1 and the activations of row r to isum[r].
template <TensorType T, int kFirst, int kLast, int M>
[[gnu::always_inline]] inline void dot(__m512i (&isum)[M], const std::byte* low, const std::byte* high,
                                       const ActivationBlock* x) {
  if constexpr (kFirst < kLast) {
    const __m512i w = weights<T, kFirst>(low, high);
    EACH_ROW(r) dot4_broadcast(isum[r], w, x[r].a + 4 * kFirst);
    dot<T, kFirst + 1, kLast>(isum, low, high, x);
  }
}
// Like dot(), but for two panels that are `other` bytes apart. The sums of the first panel are in isum[r], those of the
// second in isum[M + r].
template <TensorType T, int kFirst, int kLast, int kSums>
[[gnu::always_inline]] inline void dot_pair(__m512i (&isum)[kSums], const std::byte* low, const std::byte* high,
                                            size_t other, const ActivationBlock* x) {
  constexpr int M = kSums / 2;
  if constexpr (kFirst < kLast) {
    const __m512i w0 = weights<T, kFirst>(low, high), w1 = weights<T, kFirst>(low + other, high + other);
    EACH_ROW(r) {
      const __m512i a = broadcast4(x[r].a + 4 * kFirst);
      dot4(isum[r], w0, a);
      dot4(isum[M + r], w1, a);
    }
    dot_pair<T, kFirst + 1, kLast>(isum, low, high, other, x);
  }
}

[[gnu::always_inline]] inline __m512i load_unsigned(const std::byte* at) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

// Returns 2^(e - 128), which is subnormal for e < 2.
[[gnu::always_inline]] inline __m512 powers(__m512i e) {
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
  return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x00200000), e));
}

// Computes nvfp4_step() for bytes from nvfp4_scale_bits(). Once shifted to the positions of binary16, whose exponent
// bias is 15, the bits represent 2^-7 times the step.
[[gnu::always_inline]] inline __m512 e4m3_steps(const std::byte* at) {
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(bytes, 7)), _mm512_set1_ps(0x1p7f));
}

// Returns the steps of all lanes, for the first or the second step of a block. `number` points to the scales of the
// first step.
template <TensorType T, int half = 0>
[[gnu::always_inline]] inline __m512 steps(const std::byte* d, const std::byte* number) {
  constexpr PanelForm form = panel_form(T);
  number += half * second_scale(form);
  if constexpr (form.scale == PanelForm::kPower)
    return powers(load_unsigned(d));
  else if constexpr (form.scale == PanelForm::kE4m3)
    return e4m3_steps(number);
  else if constexpr (form.scale == PanelForm::kHalf)
    return load_halves(d);
  else {
    __m512i scale = load_unsigned(number);
    if constexpr (form.scale == PanelForm::kOddPair) {
      // Computes 2 s + 1 as (s << 1 & 30) | 1, where s is the low or the high nibble.
      scale = half == 0 ? _mm512_slli_epi32(scale, 1) : _mm512_srli_epi32(scale, 3);
      scale = _mm512_or_si512(_mm512_and_si512(scale, _mm512_set1_epi32(30)), _mm512_set1_epi32(1));
    }
    if constexpr (form.scale == PanelForm::kSigned)
      scale = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(number)));
    if constexpr (form.scale == PanelForm::kNibble || form.scale == PanelForm::kDelta)
      scale = _mm512_and_si512(scale, _mm512_set1_epi32(15));
    const __m512 step = _mm512_mul_ps(load_halves(d), _mm512_cvtepi32_ps(scale));
    return form.factor == 1 ? step : _mm512_mul_ps(step, _mm512_set1_ps(form.factor));
  }
}
template <TensorType T>
[[gnu::always_inline]] inline __m512 floors(const std::byte* d_min, const std::byte* number) {
  constexpr PanelForm form = panel_form(T);
  if constexpr (form.scale == PanelForm::kHalf)
    return load_halves(d_min);
  else if constexpr (form.scale == PanelForm::kDelta) {
    // The result is -step / 8, or step / 8 if the highest bit of the byte is set.
    const __m512i sign = _mm512_slli_epi32(_mm512_andnot_si512(load_unsigned(number), _mm512_set1_epi32(0x80)), 24);
    const __m512i eighth = _mm512_castps_si512(_mm512_mul_ps(steps<T>(d_min, number), _mm512_set1_ps(0.125f)));
    return _mm512_castsi512_ps(_mm512_xor_si512(eighth, sign));
  } else {
    __m512i minimum = load_unsigned(number);
    if constexpr (form.scale == PanelForm::kNibble) minimum = _mm512_srli_epi32(minimum, 4);
    return _mm512_mul_ps(load_halves(d_min), _mm512_cvtepi32_ps(minimum));
  }
}

// Whether the kernel's loads alone guide the hardware prefetcher well enough. This is the case for types whose records
// consist of a single array, if there are so few rows that there is little arithmetic between loads.
constexpr bool led_by_loads(PanelForm form, int rows) {
  return form.record == 32 && form.high_bits == 0 && !form.minima && rows <= form.low_bits / 2;
}

// Multiplies S panels (1 or 2) by M rows. Accumulators are [panel][row].
template <TensorType T, int M, int S>
void quantized(const PanelTile& tile) {
  constexpr PanelForm form = panel_form(T);
  constexpr PanelRecord record = panel_record(form);
  constexpr int bias = bias_of(form), blocks = form.record / 32, block_bytes = record.bytes / blocks;
  constexpr int d_bytes = kPanelRows * d_size(form), numbers = scales_of_block(form) * kPanelRows;
  constexpr int minima = minima_at(form);
  // Distance in bytes from one panel to the next.
  const size_t other = S == 2 ? tile.layout->records : 0, other_d = S == 2 ? tile.layout->block_scales : 0;
  const std::byte* at = tile.panel;
  const std::byte *d = tile.block_scales + tile.layout->d, *d_min = tile.block_scales + tile.layout->d_min;
  const std::byte* ahead = tile.ahead;
  const StreamDistances stream_ahead = led_by_loads(form, M) ? kStreamLed : kStreamDistances;
  const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
  __m512 acc[S * M];
  EACH_SUM(s, r) acc[s * M + r] = _mm512_setzero_ps();
  // Sets isum[s * M + r] to first(x[r]) plus the products of weight groups kFirst .. kLast - 1 and the activations.
  const auto sum_groups = [&]<int kFirst, int kLast>(__m512i(&isum)[S * M], auto first, const std::byte* low,
                                                     const std::byte* high) __attribute__((always_inline)) {
    EACH_SUM(s, r) isum[s * M + r] = bias == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(first(x[r]));
    if constexpr (S == 2)
      dot_pair<T, kFirst, kLast>(isum, low, high, other, x);
    else
      dot<T, kFirst, kLast>(isum, low, high, x);
  };
  for (int64_t records = tile.layout->cols / form.record; records > 0; --records) {
    if constexpr (S == 1) {
      stream_next_panel<d_bytes>(tile, d);
      if constexpr (form.minima) stream_next_panel<d_bytes>(tile, d_min);
    }
    const std::byte *line = at, *low = at, *high = at + record.high;
    const std::byte *number = at + record.scales, *minimum = at + minima;
    for (int block = 0; block < blocks; ++block) {
      if constexpr (S == 1) {
        stream<block_bytes>(line, stream_ahead);
      } else {
        for (int i = 0; i < tile.ahead_lines; ++i, ahead += kLineBytes)
          _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      }
      __m512i isum[S * M];
      if constexpr (form.step == 32) {
        sum_groups.template operator()<0, 8>(
            isum, [](const ActivationBlock& row) { return minus_bias<T, 0>(row); }, low, high);
        UNROLL for (int s = 0; s < S; ++s) {
          const __m512 step = steps<T>(d + s * other_d, number + s * other);
          EACH_ROW(r)
          acc[s * M + r] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(isum[s * M + r]), step),
                                           _mm512_set1_ps(x[r].scale), acc[s * M + r]);
          if constexpr (form.minima) {
            const __m512 floor = floors<T>(d_min + s * other_d, minimum + s * other);
            EACH_ROW(r)
            acc[s * M + r] = _mm512_fmadd_ps(floor, _mm512_set1_ps(x[r].minus_scaled_sum), acc[s * M + r]);
          }
        }
      } else {
        __m512 sum[S * M];
        sum_groups.template operator()<0, 4>(
            isum, [](const ActivationBlock& row) { return minus_bias<T, 0>(row); }, low, high);
        UNROLL for (int s = 0; s < S; ++s) {
          const __m512 step = steps<T>(d + s * other_d, number + s * other);
          EACH_ROW(r) sum[s * M + r] = _mm512_mul_ps(_mm512_cvtepi32_ps(isum[s * M + r]), step);
        }
        sum_groups.template operator()<4, 8>(
            isum, [](const ActivationBlock& row) { return minus_bias<T, 1>(row); }, low, high);
        UNROLL for (int s = 0; s < S; ++s) {
          const __m512 step = steps<T, 1>(d + s * other_d, number + s * other);
          EACH_ROW(r) {
            sum[s * M + r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum[s * M + r]), step, sum[s * M + r]);
            acc[s * M + r] = _mm512_fmadd_ps(sum[s * M + r], _mm512_set1_ps(x[r].scale), acc[s * M + r]);
          }
          if constexpr (form.minima) {
            UNROLL for (int h = 0; h < 2; ++h) {
              const __m512 floor = floors<T>(d_min + s * other_d, minimum + h * kPanelRows + s * other);
              EACH_ROW(r)
              acc[s * M + r] = _mm512_fmadd_ps(floor, _mm512_set1_ps(x[r].minus_scaled_half_sum[h]), acc[s * M + r]);
            }
          }
        }
      }
      line += block_bytes;
      low += 64 * form.low_bits;
      high += 64 * form.high_bits;
      number += numbers;
      minimum += numbers;
      x += M;
    }
    at += record.bytes;
    d += d_bytes;
    d_min += d_bytes;
  }
  if constexpr (S == 1) return finish(tile, acc);
  UNROLL for (int s = 0; s < S; ++s) {
    PanelTile panel = tile;
    panel.lanes = s == 0 ? kPanelRows : tile.lanes - kPanelRows;
    panel.out += s * kPanelRows;
    if (panel.bias != nullptr) panel.bias += s * kPanelRows;
    __m512 own[M];
    EACH_ROW(r) own[r] = acc[s * M + r];
    finish(panel, own);
  }
}

template <TensorType T>
constexpr PanelKernel kByRows[kMaxRows] = {quantized<T, 1, 1>,  quantized<T, 2, 1>,  quantized<T, 3, 1>,
                                           quantized<T, 4, 1>,  quantized<T, 5, 1>,  quantized<T, 6, 1>,
                                           quantized<T, 7, 1>,  quantized<T, 8, 1>,  quantized<T, 9, 1>,
                                           quantized<T, 10, 1>, quantized<T, 11, 1>, quantized<T, 12, 1>};
template <TensorType T>
constexpr PanelKernel kPairByRows[kMaxPairRows] = {quantized<T, 1, 2>, quantized<T, 2, 2>, quantized<T, 3, 2>,
                                                   quantized<T, 4, 2>, quantized<T, 5, 2>, quantized<T, 6, 2>};

}  // namespace
}  // namespace monolith
