// What the files *avx512*.cc share: the registers' end of the work. Include only there.
#pragma once

#include "backend/cpu/avx512-inl.h"
#include "backend/cpu/matmul/kernels.h"

#define EACH_ROW(r) UNROLL for (int r = 0; r < M; ++r)
#define EACH_SUM(s, r) UNROLL for (int s = 0; s < S; ++s) EACH_ROW(r)

namespace monolith {
namespace {

inline constexpr int kMaxRows = 12, kMaxPairRows = 6;

// The weights usually come from memory. The processor's own prefetcher follows the loads, and the more work
// there is per line, the fewer loads are in flight to lead it: left to itself, a row of Q4_K streams at half
// the rate of BF16. So lines are asked for `near` bytes ahead into the L1 cache, which runs on into the next strip,
// and, where `far` is not 0, into the L2 cache before. Weights that are in a cache already lose nothing that can be measured.
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

// Floats do so little work per line that more than this gains nothing, on either.
inline constexpr StreamDistances kFloatsAhead{0, 4096};

// Scales and minima are small: their lines are asked for a whole strip ahead, as the first ones of each strip
// would otherwise come too late. Into L2: in L1 they would be gone again by then.
template <int kBytes>
[[gnu::always_inline]] inline void stream_next_strip(const StripTile& tile, const std::byte* from) {
  UNROLL for (int byte = 0; byte < kBytes; byte += 64)
      _mm_prefetch(reinterpret_cast<const char*>(from + tile.layout->halves + byte), _MM_HINT_T1);
}

inline __m512i load_bytes(const std::byte* at) { return _mm512_loadu_si512(at); }
inline __m512 load_halves(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// isum += sum of four unsigned bytes of each lane of w times the four signed bytes at `a`. Written out
// because GCC 12 does not fold the broadcast into the instruction's operand, which costs a register and a slot.
[[gnu::always_inline]] inline void dot4_broadcast(__m512i& isum, __m512i w, const int8_t* a) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(isum) : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(a)));
}

// The two halves of that, where one broadcast serves two strips.
[[gnu::always_inline]] inline __m512i broadcast4(const int8_t* a) { return broadcast_four_bytes(a); }
[[gnu::always_inline]] inline void dot4(__m512i& isum, __m512i w, __m512i a) {
  asm("vpdpbusd %2, %1, %0" : "+v"(isum) : "v"(w), "v"(a));
}

// Adds bias and the old output as the target asks, and stores each output once.
template <int M>
[[gnu::always_inline]] inline void finish(const StripTile& tile, __m512 (&acc)[M]) {
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

// Defines kernel_by_rows(tile): kernel<M> for the tile's number of rows.
#define BY_ROWS(kernel)                                                     \
  constexpr StripKernel kernel##_rows[kMaxRows] = {                         \
      kernel<1>, kernel<2>, kernel<3>, kernel<4>,  kernel<5>,  kernel<6>,   \
      kernel<7>, kernel<8>, kernel<9>, kernel<10>, kernel<11>, kernel<12>}; \
  void kernel##_by_rows(const StripTile& tile) { kernel##_rows[tile.n_rows - 1](tile); }

}  // namespace
}  // namespace monolith
