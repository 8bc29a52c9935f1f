// Attention with AMX tiles. Calls that these kernels do not support use the AVX-512 kernel.
//
// Keys and values that are stored as 16-bit integers: see ops/attention_tiles-inl.h. With Arithmetic::kFast, both
// scores and values are computed with tiles; otherwise only the values, which have the same bits as with vector
// instructions.
//
// Arithmetic::kFast also uses tiles for at least 16 queries and F16 keys and values that are stored as floats. Each
// factor x is split into two bfloat16 numbers, x = hi + lo. A product is hi * hi + hi * lo + lo * hi; lo * lo is
// dropped, which costs up to 2^-14 of the product, and about 2^-17 on average. The softmax is the one in
// attention-inl.h.
//
// This file must not emit inline functions from shared headers: the linker might keep this file's copies, which CPUs
// without AMX would then run.
#if defined(__AMX_BF16__)

// See kernels_avx512.cc.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <immintrin.h>

#include "backend/cpu/machine/amx-inl.h"
#include "backend/cpu/ops/kernels.h"

#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_avx512.h"
#include "backend/cpu/ops/rows-inl.h"
#include "backend/cpu/ops/gates-inl.h"
#include "backend/cpu/ops/attention_q8-inl.h"
#include "backend/cpu/ops/attention_packed-inl.h"
#include "backend/cpu/ops/attention_latents-inl.h"
#include "backend/cpu/ops/attention-inl.h"
#include "backend/cpu/ops/attention_integers-inl.h"
#include "backend/cpu/ops/attention_tiles-inl.h"

constexpr int kStepDims = 32;          // Dimensions, or positions, per tile instruction.
constexpr int kMinQueries = 16;        // Rows of a tile.
constexpr int kMaxKeyDim = kWideHead;  // F16 heads with both dimensions >= kWideHead are stored as integers.
constexpr int kPairBytes = 64;         // A row of keys or values in a tile: 16 pairs of bfloat16.

// Two vectors of floats with their elements interleaved. Each element is split into its upper bits and the remainder.
struct SplitPairs {
  __m512i upper, rest;
};
inline SplitPairs split_pairs(Vec even, Vec odd) {
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  // Combines the upper halves of the elements of both vectors.
  const auto joined = [&](__m512 a, __m512 b) __attribute__((always_inline)) {
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(a), 16);
    return _mm512_ternarylogic_epi32(high_half, _mm512_castps_si512(b), low, 0xca);  // high_half ? b : low
  };
  const auto rest = [&](__m512 x) __attribute__((always_inline)) {
    return _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), high_half)));
  };
  return {joined(even.v, odd.v), joined(rest(even.v), rest(odd.v))};
}
// Stores each of 32 consecutive floats as two bfloat16 numbers: its upper bits and the remainder.
inline void store_split(Vec first, Vec second, uint16_t* upper, uint16_t* rest) {
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const auto upper_of = [&](Vec x) __attribute__((always_inline)) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.v), high_half));
  };
  const __m512 a = upper_of(first), b = upper_of(second);
  _mm512_storeu_si512(upper, (__m512i)_mm512_cvtne2ps_pbh(b, a));  // NOLINT: GCC 12 has no other conversion.
  _mm512_storeu_si512(rest,
                      (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(second.v, b), _mm512_sub_ps(first.v, a)));  // NOLINT
}

// Scratch memory of a call.
struct alignas(64) FastTile {
  uint16_t queries[2][kTileQueries * kMaxKeyDim];      // Upper bits and rest, shape [query][key_dim].
  uint16_t weights[2][kTileQueries * kAttentionSpan];  // Upper bits and rest, shape [query][position].
  // Keys or values as the second operand of a tile instruction, split into upper bits and remainder.
  std::byte operand[2][16 * kPairBytes];

  void put(int pair, Vec even, Vec odd) {
    const SplitPairs pairs = split_pairs(even, odd);
    _mm512_store_si512(operand[0] + pair * kPairBytes, pairs.upper);
    _mm512_store_si512(operand[1] + pair * kPairBytes, pairs.rest);
  }
};

// tile.q is [key_dim][q_stride].
void pack_queries(const AttentionTile& tile, FastTile& fast) {
  for (int i = 0; i < tile.n_queries; ++i) {
    alignas(64) float row[kMaxKeyDim];
    for (int d = 0; d < tile.key_dim; ++d) row[d] = tile.q[d * tile.q_stride + i];
    for (int d = 0; d < tile.key_dim; d += kStepDims) {
      const int at = i * tile.key_dim + d;
      store_split(load(row + d), load(row + d + kLanes), fast.queries[0] + at, fast.queries[1] + at);
    }
  }
}

// Adds the products of rows and the operand to the sums in tiles 0 and 2. The rows start at rows[0] (upper bits) and
// rows[1] (remainder), offset by `at` elements, and are row_bytes apart.
template <bool kTall, size_t kSize>
inline void multiply(const uint16_t (&rows)[2][kSize], int at, size_t row_bytes, const FastTile& fast) {
  asm volatile("" : : : "memory");  // The operand has just been stored.
  const auto lower = [&](int part) { return reinterpret_cast<const std::byte*>(rows[part] + at) + 16 * row_bytes; };
  AmxUnit::load<6>(fast.operand[0], kPairBytes);
  AmxUnit::load<4>(rows[0] + at, row_bytes);
  AmxUnit::dot_bf16<0, 4, 6>();
  if constexpr (kTall) {
    AmxUnit::load<5>(lower(0), row_bytes);
    AmxUnit::dot_bf16<2, 5, 6>();
  }
  AmxUnit::load<7>(fast.operand[1], kPairBytes);
  AmxUnit::dot_bf16<0, 4, 7>();
  if constexpr (kTall) AmxUnit::dot_bf16<2, 5, 7>();
  AmxUnit::load<1>(rows[1] + at, row_bytes);
  AmxUnit::dot_bf16<0, 1, 6>();
  if constexpr (kTall) {
    AmxUnit::load<3>(lower(1), row_bytes);
    AmxUnit::dot_bf16<2, 3, 6>();
  }
  asm volatile("" : : : "memory");  // The operand may be overwritten from here on.
}
template <bool kTall>
inline void clear_sums() {
  AmxUnit::zero<0>();
  if constexpr (kTall) AmxUnit::zero<2>();
}
template <bool kTall>
inline void store_sums(float* to, int64_t stride_floats) {
  const size_t stride = static_cast<size_t>(stride_floats) * sizeof(float);
  AmxUnit::store<0>(to, stride);
  if constexpr (kTall) AmxUnit::store<2>(to + 16 * stride_floats, stride);
}

template <bool kTall>
void score_page(const AttentionTile& tile, FastTile& fast, const uint16_t* keys, float* scores) {
  clear_sums<kTall>();
  for (int d = 0; d < tile.key_dim; d += kStepDims) {
    MONOLITH_UNROLL
    for (int pair = 0; pair < 16; ++pair) {
      const uint16_t* const at = keys + (d + 2 * pair) * kPageTokens;
      fast.put(pair, load(at), load(at + kPageTokens));
    }
    multiply<kTall>(fast.queries, d, static_cast<size_t>(tile.key_dim) * sizeof(uint16_t), fast);
  }
  store_sums<kTall>(scores, kScoreStride);
}

// Splits the softmax weights of positions [begin, end) of the span. Positions that a query does not attend to have
// weight 0.
void pack_weights(const AttentionTile& tile, const SpanView& view, int begin, int end, FastTile& fast) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (int i = 0; i < tile.n_queries; ++i) {
    const __m512i low = _mm512_set1_epi32(view.from(i)), high = _mm512_set1_epi32(view.to(i));
    const auto weights = [&](int position) {
      const __m512i at = _mm512_add_epi32(lanes, _mm512_set1_epi32(position));
      const __mmask16 attends = _mm512_cmpge_epi32_mask(at, low) & _mm512_cmplt_epi32_mask(at, high);
      return _mm512_maskz_loadu_ps(attends, tile.scores + i * kScoreStride + position);
    };
    for (int position = begin; position < end; position += kStepDims) {
      const int to = i * kAttentionSpan + position;
      store_split({weights(position)}, {weights(position + kLanes)}, fast.weights[0] + to, fast.weights[1] + to);
    }
  }
}

// Computes the weighted sums of 16 dimensions over positions [begin, end), which are multiples of kStepDims. Values
// outside [low, high) may be stale and are treated as 0.
template <bool kTall>
void weigh_dims(const AttentionTile& tile, FastTile& fast, const uint16_t* const* pages, int d, int begin, int end,
                int low, int high, float* states) {
  clear_sums<kTall>();
  for (int position = begin; position < end; position += kStepDims) {
    const auto row = [&](int at) { return pages[at / kPageTokens] + (at % kPageTokens) * tile.value_stride + d; };
    if (position >= low && position + kStepDims <= high) {
      MONOLITH_UNROLL
      for (int pair = 0; pair < 16; ++pair)
        fast.put(pair, load(row(position + 2 * pair)), load(row(position + 2 * pair + 1)));
    } else {
      const auto value = [&](int at) { return at >= low && at < high ? load(row(at)) : splat(0.0f); };
      for (int pair = 0; pair < 16; ++pair) fast.put(pair, value(position + 2 * pair), value(position + 2 * pair + 1));
    }
    multiply<kTall>(fast.weights, position, kAttentionSpan * sizeof(uint16_t), fast);
  }
  store_sums<kTall>(states + d, attention_state_floats(tile.value_dim));
}

template <bool kTall>
void fast_span(const AttentionTile& tile, int span, float* states) {
  const SpanView view(tile, span);
  if (view.end_page <= view.first_page) return;
  const uint16_t *keys[kAttentionSpan / kPageTokens], *values[kAttentionSpan / kPageTokens];
  for (int p = view.first_page; p < view.end_page; ++p) {
    const auto page = static_cast<size_t>(tile.pages[view.begin / kPageTokens + p]);
    keys[p] = reinterpret_cast<const uint16_t*>(tile.keys + page * tile.key_page_bytes);
    values[p] = reinterpret_cast<const uint16_t*>(tile.values + page * tile.value_page_bytes);
  }
  FastTile fast;
  pack_queries(tile, fast);
  AmxUnit::configure_pairs(16, kTall ? tile.n_queries - 16 : 1);
  for (int p = view.first_page; p < view.end_page; ++p)
    score_page<kTall>(tile, fast, keys[p], tile.scores + p * kPageTokens);
  soften(tile, view, states);
  const int begin = view.first_page * kPageTokens / kStepDims * kStepDims;
  const int end = (view.end_page * kPageTokens + kStepDims - 1) / kStepDims * kStepDims;
  pack_weights(tile, view, begin, end, fast);
  for (int d = 0; d < tile.value_dim; d += kLanes)
    weigh_dims<kTall>(tile, fast, values, d, begin, end, view.from(0), view.to(tile.n_queries - 1), states);
  AmxUnit::release();
}

void fast_attention_span(const AttentionTile& tile, int span, float* states) {
  if (attention_span_in_tiles<AmxUnit, true>(tile, span, states)) return;
  const bool floats = tile.type == KvType::kF16 && tile.rows == nullptr && tile.key_dim <= kMaxKeyDim;
  if (!floats || tile.n_queries < kMinQueries || tile.key_dim % kStepDims != 0 || tile.value_dim % kLanes != 0)
    return op_kernels_avx512().attention_span(tile, span, states);
  if (tile.n_queries > 16) return fast_span<true>(tile, span, states);
  fast_span<false>(tile, span, states);
}

void amx_attention_span(const AttentionTile& tile, int span, float* states) {
  if (!attention_span_in_tiles<AmxUnit, false>(tile, span, states))
    op_kernels_avx512().attention_span(tile, span, states);
}

}  // namespace

void use_amx_attention(OpKernels& kernels, Arithmetic arithmetic) {
  kernels.attention_span = arithmetic == Arithmetic::kFast ? fast_attention_span : amx_attention_span;
}

}  // namespace monolith

#endif
