// Prefetching of weights and storing of results, shared by all *avx512*.cc files. Include only there.
#pragma once

#include "backend/cpu/avx512-inl.h"
#include "backend/cpu/matmul/kernels.h"

#define EACH_ROW(r) UNROLL for (int r = 0; r < M; ++r)
#define EACH_SUM(s, r) UNROLL for (int s = 0; s < S; ++s) EACH_ROW(r)

namespace monolith {
namespace {

inline constexpr int kMaxRows = 12, kMaxPairRows = 6;

// Prefetches weights, which are usually in memory rather than in a cache. The hardware prefetcher follows the loads;
// the more arithmetic there is per cache line, the fewer loads are in flight for it to follow. Without software
// prefetching, a row of Q4_K streams at half the rate of BF16. Each line is first prefetched into the L2 cache, `far`
// bytes ahead, and then into the L1 cache, `near` bytes ahead, across the boundary to the next panel. A distance of 0
// disables that prefetch. If the weights are already in a cache, the cost is not measurable.
template <int kBytes>
[[gnu::always_inline]] inline void stream(const std::byte* from, StreamDistances ahead) {
  if (ahead.near != 0)
    UNROLL for (int byte = 0; byte < kBytes; byte += 64)
        _mm_prefetch(reinterpret_cast<const char*>(from + ahead.near + byte), _MM_HINT_T0);
  if (ahead.far == 0) return;
  const std::byte* const far = from + ahead.far;
  if (ahead.near != 0)
    UNROLL for (int byte = 0; byte < kBytes; byte += 64)
        _mm_prefetch(reinterpret_cast<const char*>(far + byte), _MM_HINT_T1);
  else
    UNROLL for (int byte = 0; byte < kBytes; byte += 256)
        _mm_prefetch(reinterpret_cast<const char*>(far + byte), _MM_HINT_T1);
}

// Floating-point weights require so little arithmetic per cache line that longer distances or additional prefetches
// bring no gain.
inline constexpr StreamDistances kFloatsAhead{0, 4096};

// Scales and minima are small arrays. Their lines are prefetched a whole panel ahead, because otherwise each panel's
// first lines would arrive too late. They are prefetched into L2 rather than L1, because they would be evicted from L1
// before their use.
template <int kBytes>
[[gnu::always_inline]] inline void stream_next_panel(const PanelTile& tile, const std::byte* from) {
  UNROLL for (int byte = 0; byte < kBytes; byte += 64)
      _mm_prefetch(reinterpret_cast<const char*>(from + tile.layout->block_scales + byte), _MM_HINT_T1);
}

inline __m512i load_bytes(const std::byte* at) { return _mm512_loadu_si512(at); }
inline __m512 load_halves(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// Adds to each lane of isum the dot product of the lane's four unsigned bytes in w with the four signed bytes at `a`.
// Written in inline assembly because GCC 12 does not fold the broadcast into the instruction's memory operand, which
// costs a register and an instruction.
[[gnu::always_inline]] inline void dot4_broadcast(__m512i& isum, __m512i w, const int8_t* a) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(isum) : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(a)));
}

// broadcast4() and dot4() split dot4_broadcast() into two steps, so that one broadcast can be used for two panels.
[[gnu::always_inline]] inline __m512i broadcast4(const int8_t* a) { return broadcast_four_bytes(a); }
[[gnu::always_inline]] inline void dot4(__m512i& isum, __m512i w, __m512i a) {
  asm("vpdpbusd %2, %1, %0" : "+v"(isum) : "v"(w), "v"(a));
}

// Adds the bias and the old output to the sums if requested, and stores each output once.
template <int M>
[[gnu::always_inline]] inline void finish(const PanelTile& tile, __m512 (&acc)[M]) {
  const __mmask16 lanes = static_cast<__mmask16>((1u << tile.lanes) - 1);
  if (tile.bias) {
    const __m512 bias = _mm512_maskz_loadu_ps(lanes, tile.bias);
    EACH_ROW(r) acc[r] = _mm512_add_ps(acc[r], bias);
  }
  float* out = tile.out;
  if (tile.add_to_out)
    UNROLL for (int r = 0; r < M; ++r, out += tile.out_stride)
        _mm512_mask_storeu_ps(out, lanes, _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), acc[r]));
  else
    UNROLL for (int r = 0; r < M; ++r, out += tile.out_stride) _mm512_mask_storeu_ps(out, lanes, acc[r]);
}

// Defines kernel_by_rows(tile), which calls kernel<M> for the tile's number of rows.
#define BY_ROWS(kernel)                                                     \
  constexpr PanelKernel kernel##_rows[kMaxRows] = {                         \
      kernel<1>, kernel<2>, kernel<3>, kernel<4>,  kernel<5>,  kernel<6>,   \
      kernel<7>, kernel<8>, kernel<9>, kernel<10>, kernel<11>, kernel<12>}; \
  void kernel##_by_rows(const PanelTile& tile) { kernel##_rows[tile.n_rows - 1](tile); }

}  // namespace
}  // namespace monolith
