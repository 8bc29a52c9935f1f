// The kernel for quantized weights in 256-bit vectors: one template for all types, specialized at compile time by
// panel_form(). Include only in {blocks,kquants,expanded}_{avx2,avxvnni}.cc.
//
// With AVX-VNNI, vpdpbusd multiplies unsigned by signed bytes and adds four neighboring products to a 32-bit sum. AVX2
// has no such instruction: vpmaddubsw multiplies unsigned by signed bytes and adds neighboring products in 16
// bits, with saturation. To avoid saturation, sums are widened to 32 bits after the following numbers of groups of 4 k:
//   codes 0 .. 15     8 groups: 8 * 2 * 15 * 127 = 30480
//   codes 0 .. 31     4 groups: 4 * 2 * 31 * 127 = 31496
//   codes 0 .. 63     2 groups: 2 * 2 * 63 * 127 = 32004
//   signed q of Q8_0  1 group: the weight's magnitude (128 is valid as an unsigned byte), with its sign applied to the
//                     activation, which is within +-127: 2 * 128 * 127 = 32512. The levels of IQ4_* likewise.
//   other levels      limited by the largest level: MXFP4 8 groups, 8 * 2 * 12 * 127 = 24384;
//                     IQ2 3 groups, 3 * 2 * 43 * 127 = 32766
#pragma once

#include "backend/cpu/matmul/avx2-inl.h"
#include "backend/cpu/matmul/quants.h"

namespace monolith {
namespace {

// Whether weights are multiplied as signed q. Otherwise they are multiplied as codes, and code_offset() * sum a is
// subtracted afterwards. With AVX-VNNI, levels are multiplied as codes q + 128.
#if defined(__AVXVNNI__)
constexpr bool is_signed(PanelForm) { return false; }
constexpr int code_offset(PanelForm form) { return form.levels != PanelForm::kNone ? 128 : form.offset; }
#else
constexpr bool is_signed(PanelForm form) { return form.levels != PanelForm::kNone || form.low_bits == 8; }
constexpr int code_offset(PanelForm form) { return form.offset; }
#endif
constexpr int groups_in_16_bits(PanelForm form) {
  const int bits = form.low_bits + form.high_bits;
  if (form.levels != PanelForm::kNone) {
    const int groups = 32767 / (2 * largest_level(form.levels) * 127);
    return groups < 8 ? groups : 8;
  }
  if (is_signed(form)) return 1;
  return bits <= 4 ? 8 : bits == 5 ? 4 : 2;
}

// Number of half panels that a kernel for M rows covers at once. Some kernels always cover both halves: their sums fit
// in the registers together with two vectors of weights, and the activations are loaded half as often. With AVX2, these
// are the kernels of types whose sums for a block fit in 16 bits. With AVX-VNNI, which needs no sums in 16 bits, these
// are all kernels. (There, for weights of 5632 x 2048 on two cores of an Emerald Rapids Xeon, four rows of Q6_K take
// 0.33 ms instead of 0.52 ms, and 32 rows of Q8_0 take 1.7 ms instead of 2.1 ms.)
template <TensorType T, int M>
constexpr int parts() {
  constexpr PanelForm form = panel_form(T);
#if defined(__AVXVNNI__)
  return 2;
#endif
  return groups_in_16_bits(form) == 8 ? 2 : kHalves<M>;
}

// sum += x, in program order. Otherwise, GCC would turn a chain of additions into a tree, compute all products of a
// block first, and then spill them. That takes twice as long.
[[gnu::always_inline]] inline void add16(__m256i& sum, __m256i x) {
  sum = _mm256_add_epi16(sum, x);
  asm("" : "+x"(sum));
}
[[gnu::always_inline]] inline void add32(__m256i& sum, __m256i x) {
  sum = _mm256_add_epi32(sum, x);
  asm("" : "+x"(sum));
}

template <int kShift>  // Shifts left, or right if kShift is negative. Bits cross byte boundaries.
[[gnu::always_inline]] inline __m256i shifted(__m256i v) {
  if constexpr (kShift > 0)
    return _mm256_slli_epi16(v, kShift);
  else if constexpr (kShift < 0)
    return _mm256_srli_epi16(v, -kShift);
  else
    return v;
}

// Returns group g of the 32 k at `low` and `high`, for 8 lanes with four bytes each. `line` is the vector of `low` that
// several groups share. It is loaded only for the first of these groups. Otherwise, GCC would load it again for each
// group, which costs 1 to 3% for a single row with weights in the L2 cache.
template <TensorType T, int g>
[[gnu::always_inline]] inline __m256i weights(__m256i& line, const std::byte* low, const std::byte* high) {
  constexpr PanelForm form = panel_form(T);
  constexpr int low_at = g * form.low_bits, high_at = g * form.high_bits;
  if constexpr (low_at % 8 == 0) {
    line = load_bytes(low + 64 * (low_at / 8));
    if constexpr (form.low_bits < 8) asm("" : "+x"(line));
  }
  __m256i code = shifted<-(low_at % 8)>(line);
  if constexpr (form.low_bits == 8) return is_signed(form) ? _mm256_xor_si256(code, _mm256_set1_epi8(-128)) : code;
  code = _mm256_and_si256(code, _mm256_set1_epi8(static_cast<char>((1 << form.low_bits) - 1)));
  if constexpr (form.high_bits > 0) {
    const __m256i high_mask = _mm256_set1_epi8(static_cast<char>(((1 << form.high_bits) - 1) << form.low_bits));
    const __m256i bits = shifted<form.low_bits - high_at % 8>(load_bytes(high + 64 * (high_at / 8)));
    code = _mm256_or_si256(code, _mm256_and_si256(bits, high_mask));
  }
  if constexpr (form.levels != PanelForm::kNone) {
    const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels_of(form.levels)));
    const __m256i q = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), code);
    return is_signed(form) ? q : _mm256_xor_si256(q, _mm256_set1_epi8(-128));
  } else {
    return code;
  }
}

[[gnu::always_inline]] inline __m256i broadcast4(const int8_t* a) {
  int32_t word;
  __builtin_memcpy(&word, a, sizeof word);
  return _mm256_set1_epi32(word);
}

#if defined(__AVXVNNI__)
// Adds the products of weight groups kFirst .. kLast - 1 and each row's activations to `isum`.
template <TensorType T, int M, int kFirst, int kLast, int kSums>
[[gnu::always_inline]] inline void dot(__m256i (&isum)[kSums], const std::byte* low, const std::byte* high,
                                       const ActivationBlock* x, __m256i (&lines)[kSums / M]) {
  if constexpr (kFirst < kLast) {
    constexpr int kParts = kSums / M;
    __m256i w[kParts];
    UNROLL for (int h = 0; h < kParts; ++h) w[h] = weights<T, kFirst>(lines[h], low + 32 * h, high + 32 * h);
    UNROLL for (int r = 0; r < M; ++r) {
      const __m256i a = broadcast4(x[r].a + 4 * kFirst);
      UNROLL for (int h = 0; h < kParts; ++h) { isum[h * M + r] = _mm256_dpbusd_avx_epi32(isum[h * M + r], w[h], a); }
    }
    dot<T, M, kFirst + 1, kLast>(isum, low, high, x, lines);
  }
}
#else
// Adds the products of weight groups kFirst .. kLast - 1 and the activations to `pairs`, whose 16-bit lanes each sum
// two adjacent products.
template <TensorType T, int M, int kFirst, int kLast, int kSums>
[[gnu::always_inline]] inline void dot_pairs(__m256i (&pairs)[kSums], const std::byte* low, const std::byte* high,
                                             const ActivationBlock* x, __m256i (&lines)[kSums / M]) {
  if constexpr (kFirst < kLast) {
    constexpr int kParts = kSums / M;
    __m256i w[kParts];
    UNROLL for (int h = 0; h < kParts; ++h) w[h] = weights<T, kFirst>(lines[h], low + 32 * h, high + 32 * h);
    UNROLL for (int r = 0; r < M; ++r) {
      const __m256i a = broadcast4(x[r].a + 4 * kFirst);
      UNROLL for (int h = 0; h < kParts; ++h) {
        if constexpr (is_signed(panel_form(T)))
          add16(pairs[h * M + r], _mm256_maddubs_epi16(_mm256_abs_epi8(w[h]), _mm256_sign_epi8(a, w[h])));
        else
          add16(pairs[h * M + r], _mm256_maddubs_epi16(w[h], a));
      }
    }
    dot_pairs<T, M, kFirst + 1, kLast>(pairs, low, high, x, lines);
  }
}

// Adds the products of weight groups kFirst .. kLast - 1 and each row's activations to `isum`.
template <TensorType T, int M, int kFirst, int kLast, int kSums>
[[gnu::always_inline]] inline void dot(__m256i (&isum)[kSums], const std::byte* low, const std::byte* high,
                                       const ActivationBlock* x, __m256i (&lines)[kSums / M]) {
  if constexpr (kFirst < kLast) {
    constexpr int kNext = kFirst + groups_in_16_bits(panel_form(T)), kEnd = kNext < kLast ? kNext : kLast;
    __m256i pairs[kSums];
    UNROLL for (int i = 0; i < kSums; ++i) pairs[i] = _mm256_setzero_si256();
    dot_pairs<T, M, kFirst, kEnd>(pairs, low, high, x, lines);
    UNROLL for (int i = 0; i < kSums; ++i) add32(isum[i], _mm256_madd_epi16(pairs[i], _mm256_set1_epi16(1)));
    dot<T, M, kEnd, kLast>(isum, low, high, x, lines);
  }
}

#endif  // __AVXVNNI__

// Converts isum to float and corrects for the offset of the codes. For types with two steps per block, `half` selects
// the first or the last 16 k.
template <TensorType T>
[[gnu::always_inline]] inline __m256 true_sum(__m256i isum, const ActivationBlock& x, int half) {
  constexpr PanelForm form = panel_form(T);
  constexpr int offset = code_offset(form);
  if constexpr (!is_signed(form) && offset != 0) {
    int32_t minus;
    if constexpr (form.step == 16) {
      static_assert(offset == 128 || offset == 32 || offset == 4);
      minus = offset == 128 ? x.minus_32_sum[half] * 4 : x.minus_32_sum[half] >> (offset == 32 ? 0 : 3);
    } else {
      static_assert(offset == 128 || offset == 16 || offset == 8 || offset == 1);
      minus = offset >= 16 ? x.minus_128_sum >> (offset == 128 ? 0 : 3) : x.minus_8_sum >> (offset == 8 ? 0 : 3);
    }
    isum = _mm256_add_epi32(isum, _mm256_set1_epi32(minus));
  }
  return _mm256_cvtepi32_ps(isum);
}

[[gnu::always_inline]] inline __m256i load_unsigned(const std::byte* at) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
}

// Returns 2^(e - 128), which is subnormal for e < 2.
[[gnu::always_inline]] inline __m256 powers(__m256i e) {
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
  const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small));
}

// Computes nvfp4_step() for bytes from nvfp4_scale_bits(). Once shifted to the positions of binary16, whose exponent
// bias is 15, the bits represent 2^-7 times the step.
[[gnu::always_inline]] inline __m256 e4m3_steps(const std::byte* at) {
  const __m128i bytes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(bytes, 7)), _mm256_set1_ps(0x1p7f));
}

// Returns the steps of 8 lanes, for the first or the second step of a block. `number` points to the scales of the first
// step.
template <TensorType T, int half = 0>
[[gnu::always_inline]] inline __m256 steps(const std::byte* d, const std::byte* number) {
  constexpr PanelForm form = panel_form(T);
  number += half * second_scale(form);
  if constexpr (form.scale == PanelForm::kPower)
    return powers(load_unsigned(d));
  else if constexpr (form.scale == PanelForm::kE4m3)
    return e4m3_steps(number);
  else if constexpr (form.scale == PanelForm::kHalf)
    return load_halves(d);
  else {
    __m256i scale = load_unsigned(number);
    if constexpr (form.scale == PanelForm::kOddPair) {
      // Computes 2 s + 1 as (s << 1 & 30) | 1, where s is the low or the high nibble.
      scale = half == 0 ? _mm256_slli_epi32(scale, 1) : _mm256_srli_epi32(scale, 3);
      scale = _mm256_or_si256(_mm256_and_si256(scale, _mm256_set1_epi32(30)), _mm256_set1_epi32(1));
    }
    if constexpr (form.scale == PanelForm::kSigned)
      scale = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(number)));
    if constexpr (form.scale == PanelForm::kNibble || form.scale == PanelForm::kDelta)
      scale = _mm256_and_si256(scale, _mm256_set1_epi32(15));
    const __m256 step = _mm256_mul_ps(load_halves(d), _mm256_cvtepi32_ps(scale));
    return form.factor == 1 ? step : _mm256_mul_ps(step, _mm256_set1_ps(form.factor));
  }
}
template <TensorType T>
[[gnu::always_inline]] inline __m256 floors(const std::byte* d_min, const std::byte* number) {
  constexpr PanelForm form = panel_form(T);
  if constexpr (form.scale == PanelForm::kHalf)
    return load_halves(d_min);
  else if constexpr (form.scale == PanelForm::kDelta) {
    // The result is -step / 8, or step / 8 if the highest bit of the byte is set.
    const __m256i sign = _mm256_slli_epi32(_mm256_andnot_si256(load_unsigned(number), _mm256_set1_epi32(0x80)), 24);
    return _mm256_xor_ps(_mm256_mul_ps(steps<T>(d_min, number), _mm256_set1_ps(0.125f)), _mm256_castsi256_ps(sign));
  } else {
    __m256i minimum = load_unsigned(number);
    if constexpr (form.scale == PanelForm::kNibble) minimum = _mm256_srli_epi32(minimum, 4);
    return _mm256_mul_ps(load_halves(d_min), _mm256_cvtepi32_ps(minimum));
  }
}

template <TensorType T, int M>
void quantized(const PanelTile& tile) {
  constexpr PanelForm form = panel_form(T);
  constexpr PanelRecord record = panel_record(form);
  constexpr int blocks = form.record / 32, block_bytes = record.bytes / blocks;
  constexpr int kParts = parts<T, M>(), kSums = M * kParts;
  constexpr int d_size = monolith::d_size(form), numbers = scales_of_block(form) * kPanelRows;
  constexpr int minima = minima_at(form);
  EACH_HALF(kParts, first) {
    const std::byte* at = tile.panel;
    const std::byte* d = tile.block_scales + tile.layout->d + d_size * first;
    const std::byte* d_min = tile.block_scales + tile.layout->d_min + d_size * first;
    const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
    __m256 acc[kSums];
    EACH_SUM(kParts, h, r) acc[h * M + r] = _mm256_setzero_ps();
    for (int64_t records = tile.layout->cols / form.record; records > 0; --records) {
      stream_next_panel<kPanelRows * d_size>(tile, d);
      if constexpr (form.minima) stream_next_panel<kPanelRows * d_size>(tile, d_min);
      const std::byte *ahead = at, *low = at + 4 * first, *high = at + record.high + 4 * first;
      const std::byte *number = at + record.scales + first, *minimum = at + minima + first;
      for (int block = 0; block < blocks; ++block) {
        stream<block_bytes>(ahead);
        __m256i isum[kSums], lines[kParts];
        EACH_SUM(kParts, h, r) isum[h * M + r] = _mm256_setzero_si256();
        if constexpr (form.step == 32) {
          dot<T, M, 0, 8>(isum, low, high, x, lines);
          UNROLL for (int h = 0; h < kParts; ++h) {
            const __m256 step = steps<T>(d + 8 * d_size * h, number + 8 * h);
            UNROLL for (int r = 0; r < M; ++r) {
              __m256& sum = acc[h * M + r];
              sum = _mm256_fmadd_ps(_mm256_mul_ps(true_sum<T>(isum[h * M + r], x[r], 0), step),
                                    _mm256_set1_ps(x[r].scale), sum);
            }
            if constexpr (form.minima) {
              const __m256 floor = floors<T>(d_min + 8 * d_size * h, minimum + 8 * h);
              UNROLL for (int r = 0; r < M; ++r) acc[h * M + r] =
                  _mm256_fmadd_ps(floor, _mm256_set1_ps(x[r].minus_scaled_sum), acc[h * M + r]);
            }
          }
        } else {
          __m256 sum[kSums];
          dot<T, M, 0, 4>(isum, low, high, x, lines);
          UNROLL for (int h = 0; h < kParts; ++h) {
            const __m256 step = steps<T>(d + 8 * d_size * h, number + 8 * h);
            UNROLL for (int r = 0; r < M; ++r) sum[h * M + r] =
                _mm256_mul_ps(true_sum<T>(isum[h * M + r], x[r], 0), step);
          }
          EACH_SUM(kParts, h, r) isum[h * M + r] = _mm256_setzero_si256();
          dot<T, M, 4, 8>(isum, low, high, x, lines);
          UNROLL for (int h = 0; h < kParts; ++h) {
            const __m256 step = steps<T, 1>(d + 8 * d_size * h, number + 8 * h);
            UNROLL for (int r = 0; r < M; ++r) {
              __m256& both = sum[h * M + r];
              both = _mm256_fmadd_ps(true_sum<T>(isum[h * M + r], x[r], 1), step, both);
              acc[h * M + r] = _mm256_fmadd_ps(both, _mm256_set1_ps(x[r].scale), acc[h * M + r]);
            }
          }
          if constexpr (form.minima) {
            UNROLL for (int half = 0; half < 2; ++half) {
              UNROLL for (int h = 0; h < kParts; ++h) {
                const __m256 floor = floors<T>(d_min + 8 * d_size * h, minimum + half * kPanelRows + 8 * h);
                UNROLL for (int r = 0; r < M; ++r) acc[h * M + r] =
                    _mm256_fmadd_ps(floor, _mm256_set1_ps(x[r].minus_scaled_half_sum[half]), acc[h * M + r]);
              }
            }
          }
        }
        ahead += block_bytes;
        low += 64 * form.low_bits;
        high += 64 * form.high_bits;
        number += numbers;
        minimum += numbers;
        x += M;
      }
      at += record.bytes;
      d += kPanelRows * d_size;
      d_min += kPanelRows * d_size;
    }
    finish<M>(tile, first, acc);
  }
}

template <TensorType T>
constexpr PanelKernel kByRows[kMaxRows] = {quantized<T, 1>, quantized<T, 2>, quantized<T, 3>, quantized<T, 4>};

}  // namespace
}  // namespace monolith
