// The matrix products for AVX2 with FMA and F16C. Arithmetic and layout: strips.h.
//
// A vector is half a strip, 8 lanes. With 16 registers a kernel covers M rows of one half at a time, or
// both halves at once when there are one or two rows, so that weights then pass only once.
//
// There is no 8-bit dot product; vpmaddubsw multiplies unsigned by signed bytes and adds neighbours in 16
// bits, saturating. It never gets that far here:
//   Q8_0   weights -128 .. 127 as magnitudes (128 is fine as an unsigned byte), the sign moved to the
//          activation, which is within +-127: 2 * 128 * 127 = 32512
//   Q4_*   weights 0 .. 15: a block's eight pairs of sums are 8 * 2 * 15 * 127 = 30480
//   Q6_K   weights 0 .. 63: two pairs of sums are 2 * 2 * 63 * 127 = 32004
//
// Only this file's own functions are emitted here (see matmul_kernels.h).
#if defined(__AVX2__)

#include <immintrin.h>

#include "backend/cpu/matmul_kernels.h"

// Loops over rows must vanish, or the accumulators are an array in memory; -O2 alone leaves them.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

namespace monolith {
namespace {

constexpr int kMaxRows = 4;
constexpr int kPrefetchAhead = 2048;

// Halves of a strip that a kernel of M rows covers at once.
template <int M>
constexpr int kHalves = M <= 2 ? 2 : 1;
// Four-bit kernels always take both: their sums fit beside two vectors of weights, and what is asked of the
// activations halves.
inline constexpr int kNibbleHalves = 2;

// Asks for weights early: large arrays kPrefetchAhead bytes, which runs on into the next strip; small ones a
// strip ahead, as the first lines of each strip would otherwise come too late.
template <int kBytes>
[[gnu::always_inline]] inline void stream(const std::byte* from) {
  UNROLL for (int byte = 0; byte < kBytes; byte += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + kPrefetchAhead + byte), _MM_HINT_T0);
}
template <int kBytes>
[[gnu::always_inline]] inline void stream_next_strip(const StripTile& tile, const std::byte* from) {
  UNROLL for (int byte = 0; byte < kBytes; byte += 64)
    _mm_prefetch(reinterpret_cast<const char*>(from + tile.layout->bytes + byte), _MM_HINT_T1);
}

// --- packing ------------------------------------------------------------------------------------------

int32_t sum_of(__m256i v) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
  return _mm_cvtsi128_si32(half);
}
// Of values that are not negative.
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
    __m256i amax = _mm256_setzero_si256();   // as integers, magnitudes order like the floats, NaN above infinity
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
      // Packing works within 128-bit halves: the last step puts the eight groups of four in order.
      const __m256i bytes =
          _mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3]));
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

// --- results ------------------------------------------------------------------------------------------

// Stores M rows of the half strip that begins at lane `first`.
template <int M>
[[gnu::always_inline]] inline void finish_half(const StripTile& tile, int first, const __m256* acc) {
  const int lanes = tile.lanes - first;
  if (lanes <= 0) return;
  float* out = tile.out + first;
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  UNROLL for (int r = 0; r < M; ++r, out += tile.out_stride) {
    __m256 value = acc[r];
    if (tile.bias) value = _mm256_add_ps(value, _mm256_maskload_ps(tile.bias + first, mask));
    if (tile.add_to_out) value = _mm256_add_ps(_mm256_maskload_ps(out, mask), value);
    _mm256_maskstore_ps(out, mask, value);
  }
}

// Runs `half(first_lane)` over the strip, kHalves<M> halves at a time.
#define EACH_HALF_BY(halves, first) for (int first = 0; first < kStripRows && first < tile.lanes; first += 8 * halves)
#define EACH_HALF(first) EACH_HALF_BY(kHalves<M>, first)
// Rows and halves a kernel has at hand: accumulator h * M + r.
#define EACH_SUM_OF(halves, h, r)           \
  UNROLL for (int h = 0; h < halves; ++h)   \
    UNROLL for (int r = 0; r < M; ++r)
#define EACH_SUM(h, r) EACH_SUM_OF(kHalves<M>, h, r)

template <int M, int kSums>
[[gnu::always_inline]] inline void finish(const StripTile& tile, int first, const __m256 (&acc)[kSums]) {
  UNROLL for (int h = 0; h < kSums / M; ++h) finish_half<M>(tile, first + 8 * h, acc + h * M);
}

// --- quantized ----------------------------------------------------------------------------------------

__m256i load_bytes(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
__m256i broadcast4(const int8_t* a) {
  int32_t word;
  __builtin_memcpy(&word, a, sizeof word);
  return _mm256_set1_epi32(word);
}
__m256 load_halves(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
__m256 load_unsigned_bytes(const std::byte* at) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
}
__m256 load_signed_bytes(const std::byte* at) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
}
// sum += x, here and now. GCC would turn a chain of additions into a tree, for which it computes all products of a
// block first and has no registers to keep them in: that took twice the time.
[[gnu::always_inline]] inline void add16(__m256i& sum, __m256i x) {
  sum = _mm256_add_epi16(sum, x);
  asm("" : "+x"(sum));
}
[[gnu::always_inline]] inline void add32(__m256i& sum, __m256i x) {
  sum = _mm256_add_epi32(sum, x);
  asm("" : "+x"(sum));
}
__m256i widen(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

[[gnu::always_inline]] inline __m256 add_scaled(__m256 acc, __m256i isum, __m256 step, const ActivationBlock& x) {
  return _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(isum), step), _mm256_set1_ps(x.scale), acc);
}

template <int M>
void q8_0(const StripTile& tile) {
  EACH_HALF(first) {
    const std::byte* w = tile.strip + tile.layout->values + 4 * first;
    const std::byte* d = tile.strip + tile.layout->d + 2 * first;
    const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
    __m256 acc[M * kHalves<M>];
    EACH_SUM(h, r) acc[h * M + r] = _mm256_setzero_ps();
    for (int64_t block = tile.layout->cols / 32; block > 0; --block, w += 512, d += 32, x += M) {
      stream<512>(w);
      stream_next_strip<32>(tile, d);
      __m256i isum[M * kHalves<M>];
      EACH_SUM(h, r) isum[h * M + r] = _mm256_setzero_si256();
      UNROLL for (int g = 0; g < 8; ++g) {
        UNROLL for (int h = 0; h < kHalves<M>; ++h) {
          const __m256i q = _mm256_xor_si256(load_bytes(w + 64 * g + 32 * h), _mm256_set1_epi8(-128));
          const __m256i size = _mm256_abs_epi8(q);
          UNROLL for (int r = 0; r < M; ++r) {
            const __m256i a = _mm256_sign_epi8(broadcast4(x[r].a + 4 * g), q);
            add32(isum[h * M + r], widen(_mm256_maddubs_epi16(size, a)));
          }
        }
      }
      EACH_SUM(h, r) acc[h * M + r] = add_scaled(acc[h * M + r], isum[h * M + r], load_halves(d + 16 * h), x[r]);
    }
    finish<M>(tile, first, acc);
  }
}

// pairs = the 32 four-bit weights at `w` times the activations, summed by neighbours in 16 bits.
template <int M>
[[gnu::always_inline]] inline void dot_nibbles(__m256i (&pairs)[M * kNibbleHalves], const std::byte* w,
                                               const ActivationBlock* x) {
  const __m256i nibble = _mm256_set1_epi8(15);
  EACH_SUM_OF(kNibbleHalves, h, r) pairs[h * M + r] = _mm256_setzero_si256();
  UNROLL for (int v = 0; v < 4; ++v) {
    UNROLL for (int part = 0; part < 2; ++part) {   // low nibbles, then high ones
      __m256i q[kNibbleHalves];
      UNROLL for (int h = 0; h < kNibbleHalves; ++h) {
        const __m256i both = load_bytes(w + 64 * v + 32 * h);
        q[h] = _mm256_and_si256(part == 0 ? both : _mm256_srli_epi16(both, 4), nibble);
      }
      UNROLL for (int r = 0; r < M; ++r) {
        const __m256i a = broadcast4(x[r].a + 8 * v + 4 * part);
        UNROLL for (int h = 0; h < kNibbleHalves; ++h) add16(pairs[h * M + r], _mm256_maddubs_epi16(q[h], a));
      }
    }
  }
}

template <int M>
void q4_0(const StripTile& tile) {
  EACH_HALF_BY(kNibbleHalves, first) {
    const std::byte* w = tile.strip + tile.layout->values + 4 * first;
    const std::byte* d = tile.strip + tile.layout->d + 2 * first;
    const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
    __m256 acc[M * kNibbleHalves];
    EACH_SUM_OF(kNibbleHalves, h, r) acc[h * M + r] = _mm256_setzero_ps();
    for (int64_t block = tile.layout->cols / 32; block > 0; --block, w += 256, d += 32, x += M) {
      stream<256>(w);
      stream_next_strip<32>(tile, d);
      __m256i pairs[M * kNibbleHalves];
      dot_nibbles<M>(pairs, w, x);
      EACH_SUM_OF(kNibbleHalves, h, r) {
        const __m256i isum = _mm256_add_epi32(widen(pairs[h * M + r]), _mm256_set1_epi32(x[r].minus_8_sum));
        acc[h * M + r] = add_scaled(acc[h * M + r], isum, load_halves(d + 16 * h), x[r]);
      }
    }
    finish<M>(tile, first, acc);
  }
}

template <int M>
void q4_k(const StripTile& tile) {
  const StripLayout& layout = *tile.layout;
  EACH_HALF_BY(kNibbleHalves, first) {
    const std::byte* w = tile.strip + layout.values + 4 * first;
    const std::byte *scale = tile.strip + layout.scales + first, *minimum = tile.strip + layout.minima + first;
    const std::byte *d = tile.strip + layout.d + 2 * first, *d_min = tile.strip + layout.d_min + 2 * first;
    const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
    __m256 acc[M * kNibbleHalves];
    EACH_SUM_OF(kNibbleHalves, h, r) acc[h * M + r] = _mm256_setzero_ps();
    for (int64_t super = layout.cols / 256; super > 0; --super, d += 32, d_min += 32) {
      stream_next_strip<128>(tile, scale);
      stream_next_strip<128>(tile, minimum);
      stream_next_strip<32>(tile, d);
      stream_next_strip<32>(tile, d_min);
      for (int block = 0; block < 8; ++block, w += 256, scale += 16, minimum += 16, x += M) {
        stream<256>(w);
        __m256i pairs[M * kNibbleHalves];
        dot_nibbles<M>(pairs, w, x);
        UNROLL for (int h = 0; h < kNibbleHalves; ++h) {
          const __m256 step = _mm256_mul_ps(load_halves(d + 16 * h), load_unsigned_bytes(scale + 8 * h));
          const __m256 floor = _mm256_mul_ps(load_halves(d_min + 16 * h), load_unsigned_bytes(minimum + 8 * h));
          UNROLL for (int r = 0; r < M; ++r) {
            __m256& sum = acc[h * M + r];
            sum = add_scaled(sum, widen(pairs[h * M + r]), step, x[r]);
            sum = _mm256_fmadd_ps(floor, _mm256_set1_ps(x[r].minus_scaled_sum), sum);
          }
        }
      }
    }
    finish<M>(tile, first, acc);
  }
}

// isum += 16 six-bit weights (two vectors of nibbles, one of upper pairs) times a[0 .. 15] of each row.
template <int M>
[[gnu::always_inline]] inline void dot_six_bits(__m256i* isum, const std::byte* low, const std::byte* high,
                                                const ActivationBlock* x, int k) {
  const __m256i nibble = _mm256_set1_epi8(15), upper = _mm256_set1_epi8(0x30);
  const __m256i bits = load_bytes(high), low0 = load_bytes(low), low1 = load_bytes(low + 64);
  const auto join = [&](__m256i a, __m256i b) {
    return _mm256_or_si256(_mm256_and_si256(a, nibble), _mm256_and_si256(b, upper));
  };
  const __m256i w[4] = {join(low0, _mm256_slli_epi16(bits, 4)),
                        join(_mm256_srli_epi16(low0, 4), _mm256_slli_epi16(bits, 2)), join(low1, bits),
                        join(_mm256_srli_epi16(low1, 4), _mm256_srli_epi16(bits, 2))};
  UNROLL for (int r = 0; r < M; ++r) {
    const int8_t* a = x[r].a + k;
    const __m256i first = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], broadcast4(a)),
                                           _mm256_maddubs_epi16(w[1], broadcast4(a + 4)));
    const __m256i last = _mm256_add_epi16(_mm256_maddubs_epi16(w[2], broadcast4(a + 8)),
                                          _mm256_maddubs_epi16(w[3], broadcast4(a + 12)));
    isum[r] = _mm256_add_epi32(isum[r], _mm256_add_epi32(widen(first), widen(last)));
  }
}

template <int M>
void q6_k(const StripTile& tile) {
  const StripLayout& layout = *tile.layout;
  EACH_HALF(first) {
    const std::byte *low = tile.strip + layout.values + 4 * first, *high = tile.strip + layout.high + 4 * first;
    const std::byte *scale = tile.strip + layout.scales + first, *d_at = tile.strip + layout.d + 2 * first;
    const ActivationBlock* x = reinterpret_cast<const ActivationBlock*>(tile.lines);
    __m256 acc[M * kHalves<M>];
    EACH_SUM(h, r) acc[h * M + r] = _mm256_setzero_ps();
    for (int64_t super = layout.cols / 256; super > 0; --super, d_at += 32) {
      stream_next_strip<256>(tile, scale);
      stream_next_strip<32>(tile, d_at);
      for (int block = 0; block < 8; ++block, low += 256, high += 128, scale += 32, x += M) {
        stream<256>(low);
        stream<128>(high);
        UNROLL for (int h = 0; h < kHalves<M>; ++h) {
          const __m256 d = load_halves(d_at + 16 * h);
          __m256 sum[M];
          __m256i isum[M];
          UNROLL for (int r = 0; r < M; ++r) isum[r] = _mm256_set1_epi32(x[r].minus_32_sum[0]);
          dot_six_bits<M>(isum, low + 32 * h, high + 32 * h, x, 0);
          const __m256 step0 = _mm256_mul_ps(d, load_signed_bytes(scale + 8 * h));
          UNROLL for (int r = 0; r < M; ++r) sum[r] = _mm256_mul_ps(_mm256_cvtepi32_ps(isum[r]), step0);
          UNROLL for (int r = 0; r < M; ++r) isum[r] = _mm256_set1_epi32(x[r].minus_32_sum[1]);
          dot_six_bits<M>(isum, low + 128 + 32 * h, high + 64 + 32 * h, x, 16);
          const __m256 step1 = _mm256_mul_ps(d, load_signed_bytes(scale + 16 + 8 * h));
          UNROLL for (int r = 0; r < M; ++r) {
            sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum[r]), step1, sum[r]);
            acc[h * M + r] = _mm256_fmadd_ps(sum[r], _mm256_set1_ps(x[r].scale), acc[h * M + r]);
          }
        }
      }
    }
    finish<M>(tile, first, acc);
  }
}

// --- floating point -----------------------------------------------------------------------------------

// Weights of an even and the following odd k, 8 lanes from lane `first` (0 or 8).
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
void floats(const StripTile& tile) {
  EACH_HALF(first) {
    const std::byte* w = tile.strip;
    const float* x = reinterpret_cast<const float*>(tile.lines);
    __m256 even[M * kHalves<M>], odd[M * kHalves<M>];
    EACH_SUM(h, r) even[h * M + r] = odd[h * M + r] = _mm256_setzero_ps();
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
    EACH_SUM(h, r) even[h * M + r] = _mm256_add_ps(even[h * M + r], odd[h * M + r]);
    finish<M>(tile, first, even);
  }
}
template <int M> void f32(const StripTile& tile) { floats<F32Weights, M>(tile); }
template <int M> void f16(const StripTile& tile) { floats<F16Weights, M>(tile); }
template <int M> void bf16(const StripTile& tile) { floats<Bf16Weights, M>(tile); }

// Defines kernel_by_rows(tile): kernel<M> for the tile's number of rows.
#define BY_ROWS(kernel)                                                                      \
  constexpr StripKernel kernel##_rows[kMaxRows] = {kernel<1>, kernel<2>, kernel<3>, kernel<4>}; \
  void kernel##_by_rows(const StripTile& tile) { kernel##_rows[tile.n_rows - 1](tile); }
BY_ROWS(f32)
BY_ROWS(f16)
BY_ROWS(bf16)
BY_ROWS(q8_0)
BY_ROWS(q4_0)
BY_ROWS(q4_k)
BY_ROWS(q6_k)

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kAvx2Matmul = {
    .name = "avx2",
    .calls = &calls,
    .max_tile_rows = kMaxRows,
    .pack = {pack_int8, pack_f32, nullptr},
    .activation = {ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kInt8,
                   ActivationKind::kInt8, ActivationKind::kInt8, ActivationKind::kInt8},
    .strip = {f32_by_rows, f16_by_rows, bf16_by_rows, q8_0_by_rows, q4_0_by_rows, q4_k_by_rows, q6_k_by_rows},
};

}  // namespace monolith

#endif
