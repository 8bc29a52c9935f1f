// What the files *avx2*.cc share: the registers' end of the work. Include only there.
//
// A vector is half a strip, 8 lanes. With 16 registers a kernel covers M rows of one half at a time, or
// both halves at once when there are one or two rows, so that weights then pass only once.
#pragma once

#include <immintrin.h>

#include "backend/cpu/matmul/kernels.h"
#include "backend/cpu/unroll.h"

namespace monolith {
namespace {

inline constexpr int kMaxRows = 4;
// One stream on Zen 5, two cores, against 4096: 5120 and 6144 bytes give Q4_K 1.08 and 1.12 times the tokens and
// Q4_0 1.04 and 1.06 where memory gives 57 to 64 GB/s, 0.98 and 0.95 to 0.97 where other tenants leave 44 to 52.
inline constexpr int kPrefetchAhead = 5120;

// Halves of a strip that a kernel of M rows covers at once.
template <int M>
constexpr int kHalves = M <= 2 ? 2 : 1;

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
      _mm_prefetch(reinterpret_cast<const char*>(from + tile.layout->halves + byte), _MM_HINT_T1);
}

inline __m256i load_bytes(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline __m256 load_halves(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

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

// Runs its body over the strip with the first lane of `halves` halves at a time.
#define EACH_HALF(halves, first) for (int first = 0; first < kStripRows && first < tile.lanes; first += 8 * (halves))
// Rows and halves a kernel has at hand: accumulator h * M + r.
#define EACH_SUM(halves, h, r) UNROLL for (int h = 0; h < (halves); ++h) UNROLL for (int r = 0; r < M; ++r)

template <int M, int kSums>
[[gnu::always_inline]] inline void finish(const StripTile& tile, int first, const __m256 (&acc)[kSums]) {
  UNROLL for (int h = 0; h < kSums / M; ++h) finish_half<M>(tile, first + 8 * h, acc + h * M);
}

}  // namespace
}  // namespace monolith
