// Matmul kernels for AVX2 with FMA and F16C: packing, floating-point weights, and the kernel table. The kernels for
// quantized weights are in matmul/quants_avx2-inl.h. panels.h describes the arithmetic and the layout. This file must
// not emit functions that are shared with other files (see matmul/kernels.h).
#if defined(__AVX2__)

#include "backend/cpu/matmul/avx2-inl.h"
#include "backend/cpu/matmul/quants.h"

namespace monolith {
namespace {

// --- packing ------------------------------------------------------------------------------------------

int32_t sum_of(__m256i v) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
  return _mm_cvtsi128_si32(half);
}
// Requires non-negative values.
uint32_t max_of(__m256i v) {
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(half));
}

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    __m256 v[4];
    // The bit patterns of float magnitudes, compared as integers, have the same order as the floats, with NaN above
    // infinity.
    __m256i amax = _mm256_setzero_si256();
    UNROLL for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_loadu_ps(x + k + 8 * i);
      amax = _mm256_max_epi32(amax, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
    }
    const uint32_t amax_bits = max_of(amax);
    ActivationBlock* block = reinterpret_cast<ActivationBlock*>(out);
    _mm256_store_si256(reinterpret_cast<__m256i*>(block), _mm256_setzero_si256());
    _mm256_store_si256(reinterpret_cast<__m256i*>(block) + 1, _mm256_setzero_si256());
    if (amax_bits >= kInfinityBits) {
      block->scale = __builtin_nanf("");
    } else if (amax_bits >= kSmallestAmaxBits) {
      const float amax_value = __builtin_bit_cast(float, amax_bits);
      const __m256 inverse = _mm256_set1_ps(127.0f / amax_value);
      __m256i a[4];
      UNROLL for (int i = 0; i < 4; ++i) a[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
      // The pack instructions work within each 128-bit half, so the final permutation restores the order of the eight
      // groups of four.
      const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3]));
      _mm256_store_si256(reinterpret_cast<__m256i*>(block->a),
                         _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
      const int32_t sum0 = sum_of(_mm256_add_epi32(a[0], a[1])), sum1 = sum_of(_mm256_add_epi32(a[2], a[3]));
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
      _mm256_store_ps(line, _mm256_loadu_ps(x + k));
      _mm256_store_ps(line + 8, _mm256_loadu_ps(x + k + 8));
    } else {
      for (int64_t i = 0; i < 16; ++i) line[i] = k + i < cols ? x[k + i] : 0.0f;
    }
  }
}

// --- floating point -----------------------------------------------------------------------------------

// Loads the weights of an even k and of the odd k after it, for 8 lanes starting at lane `first` (0 or 8).
struct F32Weights {
  static constexpr int kPairBytes = 128;
  static __m256 even(const std::byte* pair, int first) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(pair) + first);
  }
  static __m256 odd(const std::byte* pair, int first) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(pair) + 16 + first);
  }
};
struct F16Weights {
  static constexpr int kPairBytes = 64;
  static __m256 even(const std::byte* pair, int first) { return load_halves(pair + 2 * first); }
  static __m256 odd(const std::byte* pair, int first) { return load_halves(pair + 32 + 2 * first); }
};
struct Bf16Weights {
  static constexpr int kPairBytes = 64;
  static __m256 even(const std::byte* pair, int first) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(load_bytes(pair + 4 * first), 16));
  }
  static __m256 odd(const std::byte* pair, int first) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
    return _mm256_castsi256_ps(_mm256_and_si256(load_bytes(pair + 4 * first), upper));
  }
};

template <typename Weights, int M>
void floats(const PanelTile& tile) {
  EACH_HALF(kHalves<M>, first) {
    const std::byte* w = tile.panel;
    const float* x = reinterpret_cast<const float*>(tile.lines);
    __m256 even[M * kHalves<M>], odd[M * kHalves<M>];
    EACH_SUM(kHalves<M>, h, r) even[h * M + r] = odd[h * M + r] = _mm256_setzero_ps();
    const int64_t lines = (tile.layout->cols + 15) / 16;
    for (int64_t line = 0; line < lines; ++line, x += 16 * M) {
      for (int k = 0; k < 16; k += 2, w += Weights::kPairBytes) {
        stream<Weights::kPairBytes>(w);
        UNROLL for (int h = 0; h < kHalves<M>; ++h) {
          const __m256 w0 = Weights::even(w, first + 8 * h), w1 = Weights::odd(w, first + 8 * h);
          UNROLL for (int r = 0; r < M; ++r) {
            even[h * M + r] = _mm256_fmadd_ps(w0, _mm256_set1_ps(x[16 * r + k]), even[h * M + r]);
            odd[h * M + r] = _mm256_fmadd_ps(w1, _mm256_set1_ps(x[16 * r + k + 1]), odd[h * M + r]);
          }
        }
      }
    }
    EACH_SUM(kHalves<M>, h, r) even[h * M + r] = _mm256_add_ps(even[h * M + r], odd[h * M + r]);
    finish<M>(tile, first, even);
  }
}
// Expands eight E4M3 codes by shifting their bits to the positions of binary16. The results are 2^-8 times the values.
__m256 f8_values(const std::byte* codes) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  // Clears the bit that holds a copy of the sign.
  const __m128i bits = _mm_set1_epi16(static_cast<int16_t>(0xbfff));
  return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(wide, 7), bits));
}

template <int M>
void f8(const PanelTile& tile) {
  EACH_HALF(kHalves<M>, first) {
    const std::byte* w = tile.panel;
    const float* x = reinterpret_cast<const float*>(tile.lines);
    __m256 even[M * kHalves<M>], odd[M * kHalves<M>];
    EACH_SUM(kHalves<M>, h, r) even[h * M + r] = odd[h * M + r] = _mm256_setzero_ps();
    for (int64_t record = 0; record < tile.layout->cols / kF8Record; ++record) {
      const float* const scales = reinterpret_cast<const float*>(w) + first;
      stream<64>(w);
      w += kF8ScaleBytes;
      for (int line = 0; line < kF8Record / 16; ++line, x += 16 * M) {
        for (int k = 0; k < 16; k += 2, w += 32) {
          if (k % 4 == 0) stream<64>(w);
          UNROLL for (int h = 0; h < kHalves<M>; ++h) {
            const __m256 scale = _mm256_loadu_ps(scales + 8 * h);
            const __m256 w0 = _mm256_mul_ps(f8_values(w + first + 8 * h), scale),
                         w1 = _mm256_mul_ps(f8_values(w + 16 + first + 8 * h), scale);
            UNROLL for (int r = 0; r < M; ++r) {
              even[h * M + r] = _mm256_fmadd_ps(w0, _mm256_set1_ps(x[16 * r + k]), even[h * M + r]);
              odd[h * M + r] = _mm256_fmadd_ps(w1, _mm256_set1_ps(x[16 * r + k + 1]), odd[h * M + r]);
            }
          }
        }
      }
    }
    EACH_SUM(kHalves<M>, h, r) even[h * M + r] = _mm256_add_ps(even[h * M + r], odd[h * M + r]);
    finish<M>(tile, first, even);
  }
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

// Defines kernel_by_rows(tile), which calls kernel<M> for the tile's number of rows.
#define BY_ROWS(kernel)                                                                         \
  constexpr PanelKernel kernel##_rows[kMaxRows] = {kernel<1>, kernel<2>, kernel<3>, kernel<4>}; \
  void kernel##_by_rows(const PanelTile& tile) { kernel##_rows[tile.n_rows - 1](tile); }
BY_ROWS(f32)
BY_ROWS(f16)
BY_ROWS(bf16)
BY_ROWS(f8)

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kAvx2Matmul = {
    .name = "avx2",
    .calls = &calls,
    .max_tile_rows = kMaxRows,
    .pack = {pack_int8, pack_f32, nullptr},
    .activation = kUsualActivations,
    .panel = {f32_by_rows,   f16_by_rows,  bf16_by_rows, avx2::q8_0,  avx2::q4_0,    avx2::q4_1,  avx2::q5_0,
              avx2::q5_1,    avx2::iq4_nl, avx2::mxfp4,  avx2::q2_k,  avx2::q3_k,    avx2::q4_k,  avx2::q5_k,
              avx2::q6_k,    avx2::iq4_xs, avx2::iq1_s,  avx2::iq1_m, avx2::iq2_xxs, avx2::iq2_s, avx2::iq2_s,
              avx2::iq3_xxs, avx2::iq3_s,  avx2::tq2_0,  avx2::tq2_0, avx2::nvfp4,   f8_by_rows},
};

}  // namespace monolith

#endif
