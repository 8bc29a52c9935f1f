// The matrix products for AVX-512 (F, BW, VL, DQ, VNNI). Arithmetic and layout: strips.h.
//
// A kernel covers one strip and M rows, M a template argument: M integer and M float accumulators live in
// registers with one vector of weights, so each weight is loaded (and unpacked) once per M uses. With
// kMaxRows = 12 they fill 26 of the 32 registers; Q6_K needs the rest. Zen 4 starts one 512-bit vpdpbusd
// per cycle: 64 multiply-adds, the ceiling. A Q8_0 block costs a row eight of them plus one multiplication
// and one fma on the same pipes: at most 80 percent. Measured from the L1 cache: 79 (Q8_0, Q4_0), 70 (Q4_K,
// Q6_K: one more fma); F32, F16 and, with vdpbf16ps, BF16 reach 95 percent and more of theirs.
//
// Only this file's own functions are emitted here (see matmul_kernels.h).
#if defined(__AVX512VNNI__)

#include "backend/cpu/matmul_avx512-inl.h"

namespace monolith {
namespace {

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    const __m512 x0 = _mm512_loadu_ps(x + k), x1 = _mm512_loadu_ps(x + k + 16);
    // As integers, magnitudes order like the floats, NaN above infinity.
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const uint32_t amax_bits = _mm512_reduce_max_epu32(
        _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(x1), magnitude)));
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
    }
  }
}

void pack_f32(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 16, out += line_stride) {
    const __mmask16 mask = cols - k >= 16 ? 0xffff : static_cast<__mmask16>((1u << (cols - k)) - 1);
    _mm512_store_ps(out, _mm512_maskz_loadu_ps(mask, x + k));
  }
}

// --- quantized ----------------------------------------------------------------------------------------

__m512i load_bytes(const std::byte* at) { return _mm512_loadu_si512(at); }
__m512 load_halves(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
__m512 load_unsigned_bytes(const std::byte* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
}
__m512 load_signed_bytes(const std::byte* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
}

// isum[r] += four weights of each lane times four activations of row r.
template <int M>
[[gnu::always_inline]] inline void dot4(__m512i (&isum)[M], __m512i w, const ActivationBlock* x, int k) {
  EACH_ROW(r) dot4_broadcast(isum[r], w, x[r].a + k);
}

// The 32 four-bit weights at `w`, without their offset.
template <int M>
[[gnu::always_inline]] inline void dot_nibbles(__m512i (&isum)[M], const std::byte* w, const ActivationBlock* x) {
  const __m512i nibble = _mm512_set1_epi8(15);
  UNROLL
  for (int v = 0; v < 4; ++v) {
    const __m512i both = load_bytes(w + 64 * v);
    dot4(isum, _mm512_and_si512(both, nibble), x, 8 * v);
    dot4(isum, _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), x, 8 * v + 4);
  }
}

template <int M>
[[gnu::always_inline]] inline void add_scaled(__m512 (&acc)[M], const __m512i (&isum)[M], __m512 step,
                                              const ActivationBlock* x) {
  EACH_ROW(r)
    acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(isum[r]), step), _mm512_set1_ps(x[r].scale), acc[r]);
}

template <int M>
void q8_0(const StripTile& tile) {
  const std::byte* w = tile.strip + tile.layout->values;
  const std::byte* d = tile.strip + tile.layout->d;
  const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
  __m512 acc[M];
  EACH_ROW(r) acc[r] = _mm512_setzero_ps();
  for (int64_t block = tile.layout->cols / 32; block > 0; --block, w += 512, d += 32, x += M) {
    stream<512, 8192, 2048>(w);
    stream_next_strip<32>(tile, d);
    __m512i isum[M];
    EACH_ROW(r) isum[r] = _mm512_set1_epi32(x[r].minus_128_sum);
  UNROLL
    for (int g = 0; g < 8; ++g) dot4(isum, load_bytes(w + 64 * g), x, 4 * g);
    add_scaled(acc, isum, load_halves(d), x);
  }
  finish(tile, acc);
}

template <int M>
void q4_0(const StripTile& tile) {
  const std::byte* w = tile.strip + tile.layout->values;
  const std::byte* d = tile.strip + tile.layout->d;
  const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
  __m512 acc[M];
  EACH_ROW(r) acc[r] = _mm512_setzero_ps();
  for (int64_t block = tile.layout->cols / 32; block > 0; --block, w += 256, d += 32, x += M) {
    stream<256, 16384, 2048>(w);
    stream_next_strip<32>(tile, d);
    __m512i isum[M];
    EACH_ROW(r) isum[r] = _mm512_set1_epi32(x[r].minus_8_sum);
    dot_nibbles(isum, w, x);
    add_scaled(acc, isum, load_halves(d), x);
  }
  finish(tile, acc);
}

template <int M>
void q4_k(const StripTile& tile) {
  const StripLayout& layout = *tile.layout;
  const std::byte* w = tile.strip + layout.values;
  const std::byte *scale = tile.strip + layout.scales, *minimum = tile.strip + layout.minima;
  const std::byte *d_at = tile.strip + layout.d, *d_min_at = tile.strip + layout.d_min;
  const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
  __m512 acc[M];
  EACH_ROW(r) acc[r] = _mm512_setzero_ps();
  for (int64_t super = layout.cols / 256; super > 0; --super, d_at += 32, d_min_at += 32) {
    stream_next_strip<128>(tile, scale);
    stream_next_strip<128>(tile, minimum);
    stream_next_strip<32>(tile, d_at);
    stream_next_strip<32>(tile, d_min_at);
    for (int block = 0; block < 8; ++block, w += 256, scale += 16, minimum += 16, x += M) {
      stream<256, 16384, 1024>(w);
      __m512i isum[M];
      EACH_ROW(r) isum[r] = _mm512_setzero_si512();
      dot_nibbles(isum, w, x);
      add_scaled(acc, isum, _mm512_mul_ps(load_halves(d_at), load_unsigned_bytes(scale)), x);
      const __m512 floor = _mm512_mul_ps(load_halves(d_min_at), load_unsigned_bytes(minimum));
      EACH_ROW(r)
        acc[r] = _mm512_fmadd_ps(floor, _mm512_set1_ps(x[r].minus_scaled_sum), acc[r]);
    }
  }
  finish(tile, acc);
}

// 16 six-bit weights: two vectors of nibbles, one of upper pairs.
template <int M>
[[gnu::always_inline]] inline void dot_six_bits(__m512i (&isum)[M], const std::byte* low, const std::byte* high,
                                                const ActivationBlock* x, int k) {
  const __m512i nibble = _mm512_set1_epi8(15), upper = _mm512_set1_epi8(0x30);
  const __m512i pairs = load_bytes(high), low0 = load_bytes(low), low1 = load_bytes(low + 64);
  // Bits of b where `nibble` is 0 and `upper` is 1: (a & nibble) | (b & upper); the masks are disjoint.
  const auto join = [&](__m512i a, __m512i b) {
    return _mm512_or_si512(_mm512_and_si512(a, nibble), _mm512_and_si512(b, upper));
  };
  dot4(isum, join(low0, _mm512_slli_epi16(pairs, 4)), x, k);
  dot4(isum, join(_mm512_srli_epi16(low0, 4), _mm512_slli_epi16(pairs, 2)), x, k + 4);
  dot4(isum, join(low1, pairs), x, k + 8);
  dot4(isum, join(_mm512_srli_epi16(low1, 4), _mm512_srli_epi16(pairs, 2)), x, k + 12);
}

template <int M>
void q6_k(const StripTile& tile) {
  const StripLayout& layout = *tile.layout;
  const std::byte *low = tile.strip + layout.values, *high = tile.strip + layout.high;
  const std::byte *scale = tile.strip + layout.scales, *d_at = tile.strip + layout.d;
  const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
  __m512 acc[M];
  EACH_ROW(r) acc[r] = _mm512_setzero_ps();
  for (int64_t super = layout.cols / 256; super > 0; --super, d_at += 32) {
    stream_next_strip<256>(tile, scale);
    stream_next_strip<32>(tile, d_at);
    for (int block = 0; block < 8; ++block, low += 256, high += 128, scale += 32, x += M) {
      stream<256, 16384, 2048>(low);
      stream<128, 16384, 2048>(high);
      const __m512 d = load_halves(d_at);
      __m512i isum[M];
      __m512 sum[M];
      EACH_ROW(r) isum[r] = _mm512_set1_epi32(x[r].minus_32_sum[0]);
      dot_six_bits(isum, low, high, x, 0);
      const __m512 step0 = _mm512_mul_ps(d, load_signed_bytes(scale));
      EACH_ROW(r) sum[r] = _mm512_mul_ps(_mm512_cvtepi32_ps(isum[r]), step0);
      EACH_ROW(r) isum[r] = _mm512_set1_epi32(x[r].minus_32_sum[1]);
      dot_six_bits(isum, low + 128, high + 64, x, 16);
      const __m512 step1 = _mm512_mul_ps(d, load_signed_bytes(scale + 16));
      EACH_ROW(r) {
        sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum[r]), step1, sum[r]);
        acc[r] = _mm512_fmadd_ps(sum[r], _mm512_set1_ps(x[r].scale), acc[r]);
      }
    }
  }
  finish(tile, acc);
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
  static __m512 even(const std::byte* pair) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(load_bytes(pair), 16));
  }
  static __m512 odd(const std::byte* pair) {
    return _mm512_castsi512_ps(_mm512_and_si512(load_bytes(pair), _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
};

template <typename Weights, int M>
void floats(const StripTile& tile) {
  const std::byte* w = tile.strip;
  const float* x = reinterpret_cast<const float*>(tile.lines);
  __m512 even[M], odd[M];
  EACH_ROW(r) even[r] = odd[r] = _mm512_setzero_ps();
  const int64_t lines = (tile.layout->cols + 15) / 16;
  for (int64_t line = 0; line < lines; ++line, x += 16 * M) {
    for (int k = 0; k < 16; k += 2, w += Weights::kPairBytes) {
      stream<Weights::kPairBytes, 0, 4096>(w);
      const __m512 w0 = Weights::even(w), w1 = Weights::odd(w);
      EACH_ROW(r) even[r] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x[16 * r + k]), even[r]);
      EACH_ROW(r) odd[r] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x[16 * r + k + 1]), odd[r]);
    }
  }
  EACH_ROW(r) even[r] = _mm512_add_ps(even[r], odd[r]);
  finish(tile, even);
}
template <int M> void f32(const StripTile& tile) { floats<F32Weights, M>(tile); }
template <int M> void f16(const StripTile& tile) { floats<F16Weights, M>(tile); }
template <int M> void bf16(const StripTile& tile) { floats<Bf16Weights, M>(tile); }

BY_ROWS(f32)
BY_ROWS(f16)
BY_ROWS(bf16)
BY_ROWS(q8_0)
BY_ROWS(q4_0)
BY_ROWS(q4_k)
BY_ROWS(q6_k)

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kAvx512Matmul = {
    .name = "avx512",
    .calls = &calls,
    .max_tile_rows = kMaxRows,
    .pack = {pack_int8, pack_f32, nullptr},
    .activation = {ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kInt8,
                   ActivationKind::kInt8, ActivationKind::kInt8, ActivationKind::kInt8},
    .strip = {f32_by_rows, f16_by_rows, bf16_by_rows, q8_0_by_rows, q4_0_by_rows, q4_k_by_rows, q6_k_by_rows},
};

}  // namespace monolith

#endif
