// Prefetching of weights and storing of results, shared by the *avx2*.cc files. Include only there. A vector is half a
// panel, that is, 8 lanes. Because there are only 16 registers, a kernel covers M rows of one half at a time. With one
// or two rows, it covers both halves at once, so the weights are read only once.
#pragma once

#include <immintrin.h>

#include "backend/cpu/matmul/kernels.h"
#include "backend/cpu/unroll.h"

namespace monolith {
namespace {

inline constexpr int kMaxRows = 4;
// Prefetch distance in bytes. Compared with 4096 on Zen 5 (one stream, two cores), 5120 is 4 to 8% faster when the full
// memory bandwidth is available, and 2% slower when other tenants use part of it. 6144 is 6 to 12% faster and 3 to 5%
// slower, respectively.
inline constexpr int kPrefetchAhead = 5120;

// Number of half panels that a kernel for M rows covers at once.
template <int M>
constexpr int kHalves = M <= 2 ? 2 : 1;

// Prefetches weights. Large arrays are prefetched kPrefetchAhead bytes ahead, across the boundary to the next panel.
// Small arrays are prefetched a whole panel ahead, because otherwise the first lines of each panel would arrive too
// late.
template <int kBytes>
[[gnu::always_inline]] inline void stream(const std::byte* from) {
  UNROLL for (int byte = 0; byte < kBytes; byte += 64)
      _mm_prefetch(reinterpret_cast<const char*>(from + kPrefetchAhead + byte), _MM_HINT_T0);
}
template <int kBytes>
[[gnu::always_inline]] inline void stream_next_panel(const PanelTile& tile, const std::byte* from) {
  UNROLL for (int byte = 0; byte < kBytes; byte += 64)
      _mm_prefetch(reinterpret_cast<const char*>(from + tile.layout->block_scales + byte), _MM_HINT_T1);
}

inline __m256i load_bytes(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline __m256 load_halves(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

// Stores M rows of the half panel that starts at lane `first`.
template <int M>
[[gnu::always_inline]] inline void finish_half(const PanelTile& tile, int first, const __m256* acc) {
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

// Runs its body once for each group of `halves` half panels. `first` is the group's first lane.
#define EACH_HALF(halves, first) for (int first = 0; first < kPanelRows && first < tile.lanes; first += 8 * (halves))
// Loops over the accumulators: the accumulator of row r and half h has index h * M + r.
#define EACH_SUM(halves, h, r) UNROLL for (int h = 0; h < (halves); ++h) UNROLL for (int r = 0; r < M; ++r)

template <int M, int kSums>
[[gnu::always_inline]] inline void finish(const PanelTile& tile, int first, const __m256 (&acc)[kSums]) {
  UNROLL for (int h = 0; h < kSums / M; ++h) finish_half<M>(tile, first + 8 * h, acc + h * M);
}

}  // namespace
}  // namespace monolith
