// BF16 matmul with vdpbf16ps, for AVX-512 processors that support it (Zen 4, Cooper Lake and later). The instruction
// multiplies pairs of bfloat16 numbers and adds the products to a float. It treats denormals as zero and rounds results
// to nearest even (Intel SDM, VDPBF16PS). Activations are rounded to bfloat16. panels.h describes the order of the
// sums.
#if defined(__AVX512BF16__)

#include "backend/cpu/matmul/avx512-inl.h"

namespace monolith {
namespace {

// Rounds in integer arithmetic, as float_to_bfloat16() does, because vcvtneps2bf16 would flush denormals.
__m256i round_to_bf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16));
}

void pack_bf16(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    const int64_t left = cols - k;
    const __mmask16 first = left >= 16 ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
    const __mmask16 last = left >= 32 ? 0xffff : left > 16 ? static_cast<__mmask16>((1u << (left - 16)) - 1) : 0;
    __m256i* line = reinterpret_cast<__m256i*>(out);
    _mm256_store_si256(line, round_to_bf16(_mm512_maskz_loadu_ps(first, x + k)));
    _mm256_store_si256(line + 1, round_to_bf16(_mm512_maskz_loadu_ps(last, x + k + 16)));
  }
}

// Adds to each lane of acc the dot product of the lane's pair of weights with the pair of activations at `a`.
[[gnu::always_inline]] inline void dot2_broadcast(__m512& acc, __m512i w, const uint16_t* a) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*reinterpret_cast<const uint16_t(*)[2]>(a)));
}

template <int M>
void bf16(const PanelTile& tile) {
  const std::byte* w = tile.panel;
  const uint16_t* x = reinterpret_cast<const uint16_t*>(tile.lines);
  __m512 even[M], odd[M];
  EACH_ROW(r) even[r] = odd[r] = _mm512_setzero_ps();
  const int64_t lines = (tile.layout->cols + 31) / 32;
  for (int64_t line = 0; line < lines; ++line, x += 32 * M) {
    for (int k = 0; k < 32; k += 4, w += 128) {
      stream<128>(w, kFloatsAhead);
      const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
      EACH_ROW(r) dot2_broadcast(even[r], w0, x + 32 * r + k);
      EACH_ROW(r) dot2_broadcast(odd[r], w1, x + 32 * r + k + 2);
    }
  }
  EACH_ROW(r) even[r] = _mm512_add_ps(even[r], odd[r]);
  finish(tile, even);
}
BY_ROWS(bf16)

}  // namespace

constinit const Bf16Kernels kAvx512Bf16 = {pack_bf16, bf16_by_rows};

}  // namespace monolith

#endif
