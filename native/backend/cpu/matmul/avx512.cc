// Matmul kernels for AVX-512 (F, BW, VL, DQ, VNNI): packing, floating-point weights, and the kernel table. The kernels
// for quantized weights are in matmul/quants_avx512-inl.h. panels.h describes the arithmetic and the layout. This file
// must not emit functions that are shared with other files (see matmul/kernels.h).
#if defined(__AVX512VNNI__)

#include "backend/cpu/matmul/avx512-inl.h"
#include "backend/cpu/matmul/quants.h"

namespace monolith {
namespace {

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    const __m512 x0 = _mm512_loadu_ps(x + k), x1 = _mm512_loadu_ps(x + k + 16);
    // The bit patterns of float magnitudes, compared as integers, have the same order as the floats, with NaN above
    // infinity.
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const uint32_t amax_bits = _mm512_reduce_max_epu32(_mm512_max_epu32(
        _mm512_and_si512(_mm512_castps_si512(x0), magnitude), _mm512_and_si512(_mm512_castps_si512(x1), magnitude)));
    ActivationBlock* block = reinterpret_cast<ActivationBlock*>(out);
    _mm512_store_si512(block, _mm512_setzero_si512());
    if (amax_bits >= kInfinityBits) {
      block->scale = __builtin_nanf("");
    } else if (amax_bits >= kSmallestAmaxBits) {
      const float amax = __builtin_bit_cast(float, amax_bits);
      const __m512 inverse = _mm512_set1_ps(127.0f / amax);
      const __m512i a0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse));
      const __m512i a1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
      _mm_store_si128(reinterpret_cast<__m128i*>(block->a), _mm512_cvtepi32_epi8(a0));
      _mm_store_si128(reinterpret_cast<__m128i*>(block->a + 16), _mm512_cvtepi32_epi8(a1));
      const int32_t sum0 = _mm512_reduce_add_epi32(a0), sum1 = _mm512_reduce_add_epi32(a1), sum = sum0 + sum1;
      block->scale = amax / 127.0f;
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
    const __mmask16 mask = cols - k >= 16 ? 0xffff : static_cast<__mmask16>((1u << (cols - k)) - 1);
    _mm512_store_ps(out, _mm512_maskz_loadu_ps(mask, x + k));
  }
}

// --- floating point -----------------------------------------------------------------------------------

struct F32Weights {
  static constexpr int kPairBytes = 128;
  static __m512 even(const std::byte* pair) { return _mm512_loadu_ps(pair); }
  static __m512 odd(const std::byte* pair) { return _mm512_loadu_ps(pair + 64); }
};
struct F16Weights {
  static constexpr int kPairBytes = 64;
  static __m512 even(const std::byte* pair) { return load_halves(pair); }
  static __m512 odd(const std::byte* pair) { return load_halves(pair + 32); }
};
struct Bf16Weights {
  static constexpr int kPairBytes = 64;
  static __m512 even(const std::byte* pair) { return _mm512_castsi512_ps(_mm512_slli_epi32(load_bytes(pair), 16)); }
  static __m512 odd(const std::byte* pair) {
    return _mm512_castsi512_ps(_mm512_and_si512(load_bytes(pair), _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
};

template <typename Weights, int M>
void floats(const PanelTile& tile) {
  const std::byte* w = tile.panel;
  const float* x = reinterpret_cast<const float*>(tile.lines);
  __m512 even[M], odd[M];
  EACH_ROW(r) even[r] = odd[r] = _mm512_setzero_ps();
  const int64_t lines = (tile.layout->cols + 15) / 16;
  for (int64_t line = 0; line < lines; ++line, x += 16 * M) {
    for (int k = 0; k < 16; k += 2, w += Weights::kPairBytes) {
      stream<Weights::kPairBytes>(w, kFloatsAhead);
      const __m512 w0 = Weights::even(w), w1 = Weights::odd(w);
      EACH_ROW(r) even[r] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x[16 * r + k]), even[r]);
      EACH_ROW(r) odd[r] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x[16 * r + k + 1]), odd[r]);
    }
  }
  EACH_ROW(r) even[r] = _mm512_add_ps(even[r], odd[r]);
  finish(tile, even);
}
// Expands the E4M3 codes of an even k and of the odd k after it by shifting their bits to the positions of binary16.
// The results are 2^-8 times the values.
template <int M>
void f8(const PanelTile& tile) {
  const std::byte* w = tile.panel;
  const float* x = reinterpret_cast<const float*>(tile.lines);
  __m512 even[M], odd[M];
  EACH_ROW(r) even[r] = odd[r] = _mm512_setzero_ps();
  // Clears the bit that holds a copy of the sign.
  const __m512i bits = _mm512_set1_epi16(static_cast<int16_t>(0xbfff));
  for (int64_t record = 0; record < tile.layout->cols / kF8Record; ++record) {
    const __m512 scale = _mm512_loadu_ps(w);
    stream<64>(w, kFloatsAhead);
    w += kF8ScaleBytes;
    for (int line = 0; line < kF8Record / 16; ++line, x += 16 * M) {
      for (int k = 0; k < 16; k += 2, w += 32) {
        if (k % 4 == 0) stream<64>(w, kFloatsAhead);
        const __m512i codes = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
        const __m512i halves = _mm512_and_si512(_mm512_slli_epi16(codes, 7), bits);
        const __m512 w0 = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), scale);
        const __m512 w1 = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)), scale);
        EACH_ROW(r) even[r] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x[16 * r + k]), even[r]);
        EACH_ROW(r) odd[r] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x[16 * r + k + 1]), odd[r]);
      }
    }
  }
  EACH_ROW(r) even[r] = _mm512_add_ps(even[r], odd[r]);
  finish(tile, even);
}
template <int M>
void f32(const PanelTile& tile) {
  floats<F32Weights, M>(tile);
}
template <int M>
void f16(const PanelTile& tile) {
  floats<F16Weights, M>(tile);
}
template <int M>
void bf16(const PanelTile& tile) {
  floats<Bf16Weights, M>(tile);
}

BY_ROWS(f32)
BY_ROWS(f16)
BY_ROWS(bf16)
BY_ROWS(f8)

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kAvx512Matmul = {
    .name = "avx512",
    .calls = &calls,
    .max_tile_rows = kMaxRows,
    .pack = {pack_int8, pack_f32, nullptr},
    .activation = kUsualActivations,
    .panel = {f32_by_rows,     f16_by_rows,   bf16_by_rows,   avx512::q8_0,    avx512::q4_0,  avx512::q4_1,
              avx512::q5_0,    avx512::q5_1,  avx512::iq4_nl, avx512::mxfp4,   avx512::q2_k,  avx512::q3_k,
              avx512::q4_k,    avx512::q5_k,  avx512::q6_k,   avx512::iq4_xs,  avx512::iq1_s, avx512::iq1_m,
              avx512::iq2_xxs, avx512::iq2_s, avx512::iq2_s,  avx512::iq3_xxs, avx512::iq3_s, avx512::tq2_0,
              avx512::tq2_0,   avx512::nvfp4, f8_by_rows},
    .max_pair_rows = kMaxPairRows,
    .pair = {nullptr,
             nullptr,
             nullptr,
             avx512::q8_0_pair,
             avx512::q4_0_pair,
             avx512::q4_1_pair,
             avx512::q5_0_pair,
             avx512::q5_1_pair,
             avx512::iq4_nl_pair,
             avx512::mxfp4_pair,
             avx512::q2_k_pair,
             avx512::q3_k_pair,
             avx512::q4_k_pair,
             avx512::q5_k_pair,
             avx512::q6_k_pair,
             avx512::iq4_xs_pair,
             avx512::iq1_s_pair,
             avx512::iq1_m_pair,
             avx512::iq2_xxs_pair,
             avx512::iq2_s_pair,
             avx512::iq2_s_pair,
             avx512::iq3_xxs_pair,
             avx512::iq3_s_pair,
             avx512::tq2_0_pair,
             avx512::tq2_0_pair,
             avx512::nvfp4_pair},
};

}  // namespace monolith

#endif
