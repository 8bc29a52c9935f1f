// Fixed16Kernels for AVX-512 with VNNI (see kernels.h). This file must not emit functions that are shared with other
// files.
#if defined(__AVX512VNNI__)

#include "backend/cpu/avx512-inl.h"
#include "backend/cpu/fixed16/kernels.h"

namespace monolith {
namespace {

// Adds the products of each lane's two pairs to that lane of `sum`. Written in inline assembly because GCC 12 copies
// the sums when its intrinsic is used.
[[gnu::always_inline]] inline void dot2(__m512i& sum, __m512i a, __m512i b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}

// Computes sums[r][s], the dot products of row r with the vectors in lane group s. Rows and vectors are stored as pairs
// of adjacent k. `stride` is the distance between consecutive pairs in `lanes`.
template <int R, int S>
[[gnu::always_inline]] inline void dots(const int16_t* rows, const int16_t* lanes, int64_t stride, int pairs,
                                        __m512i (&sums)[R * S]) {
  UNROLL for (int r = 0; r < R; ++r) { UNROLL for (int s = 0; s < S; ++s) sums[r * S + s] = _mm512_setzero_si512(); }
  for (int pair = 0; pair < pairs; ++pair, rows += 2, lanes += stride) {
    __m512i lane[S];
    UNROLL for (int s = 0; s < S; ++s) lane[s] = _mm512_loadu_si512(lanes + 32 * s);
    UNROLL for (int r = 0; r < R; ++r) {
      const __m512i row = broadcast_four_bytes(rows + r * kFixed16Block);
      UNROLL for (int s = 0; s < S; ++s) dot2(sums[r * S + s], lane[s], row);
    }
  }
}

template <int Size>
struct Rows {
  static constexpr int value = Size;
};
// Calls fn(Rows<n>(), first row) for each group of `Most` rows, then once for the remaining rows.
template <int Size, typename Fn>
inline void rest_of_rows(int n, int first, Fn& fn) {
  if constexpr (Size > 0) {
    if (n == Size)
      fn(Rows<Size>(), first);
    else
      rest_of_rows<Size - 1>(n, first, fn);
  }
}
template <int Most, typename Fn>
inline void for_rows(int n, Fn fn) {
  int first = 0;
  for (; n - first >= Most; first += Most) fn(Rows<Most>(), first);
  rest_of_rows<Most - 1>(n - first, first, fn);
}

float pack(const float* x, int count, int most, int16_t* to) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const auto some = [&](int at) { return first_lanes(count - at); };
  // The bit patterns of float magnitudes, compared as integers, have the same order as the floats, with NaN above
  // infinity.
  __m512i largest = _mm512_setzero_si512();
  for (int at = 0; at < count; at += 16)
    largest = _mm512_max_epu32(
        largest, _mm512_and_si512(_mm512_castps_si512(_mm512_maskz_loadu_ps(some(at), x + at)), magnitude));
  const uint32_t amax_bits = _mm512_reduce_max_epu32(largest);
  float step = 0, inverse = 0;
  if (amax_bits >= 0x7f800000u) {
    step = __builtin_nanf("");
  } else if (amax_bits >= kFixed16SmallestBits) {
    const float amax = __builtin_bit_cast(float, amax_bits);
    step = amax / static_cast<float>(most);
    inverse = static_cast<float>(most) / amax;
  }
  const int end = count + count % 2;
  for (int at = 0; at < count; at += 16) {
    const __mmask16 stored = first_lanes(end - at);
    const __m512 number = _mm512_maskz_loadu_ps(inverse != 0 ? some(at) : static_cast<__mmask16>(0), x + at);
    const __m512i integer = _mm512_cvtps_epi32(_mm512_mul_ps(number, _mm512_set1_ps(inverse)));
    _mm256_mask_storeu_epi16(to + at, stored, _mm512_cvtepi32_epi16(integer));
  }
  return step;
}

template <int R>
void multiply_rows(const Fixed16Tile& tile) {
  __m512i sums[R * 2];
  dots<R, 2>(tile.x, tile.weights, 2 * kFixed16Lanes, tile.pairs, sums);
  UNROLL for (int s = 0; s < 2; ++s) {
    const int lanes = tile.n_lanes - 16 * s;
    if (lanes <= 0) break;
    const __mmask16 mask = first_lanes(lanes);
    const __m512 steps = _mm512_loadu_ps(tile.weight_steps + 16 * s);
    const __m512 bias =
        tile.first && tile.bias != nullptr ? _mm512_maskz_loadu_ps(mask, tile.bias + 16 * s) : _mm512_setzero_ps();
    float* out = tile.out + 16 * s;
    const bool adds = !tile.first || tile.add_to_out;
    UNROLL for (int r = 0; r < R; ++r, out += tile.out_stride) {
      const __m512 before = adds ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), bias) : bias;
      const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r * 2 + s]), steps);
      _mm512_mask_storeu_ps(out, mask, _mm512_fmadd_ps(product, _mm512_set1_ps(tile.x_steps[r]), before));
    }
  }
}

void multiply(const Fixed16Tile& tile) {
  const auto run = [&](auto rows, int) { multiply_rows<rows.value>(tile); };
  rest_of_rows<kFixed16Rows>(tile.n_rows, 0, run);
}

// 2^x for x <= 0 with an error of at most 3e-6 (Taylor series on [-1/2, 1/2]). The result is 0 below -150. NaN stays
// NaN.
[[gnu::always_inline]] inline __m512 power_of_two(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-150.0f), x);
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(x, whole);
  __m512 sum = _mm512_set1_ps(1.3333558e-3f);
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(9.6181291e-3f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(5.5504109e-2f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(2.4022651e-1f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(6.9314718e-1f));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(sum, whole);
}

// A query's running softmax.
struct Softmax {
  float top;    // Largest integer score times its key's step.
  float total;  // Sum of weights relative to `top`.
  float keep;   // Factor by which the sums so far must be multiplied.
  float step;   // Step of the block's integer weights.
};

// Converts a query's scores for the block's positions [begin, end) to integer weights. The query attends to [low,
// high). begin and end are multiples of 16 within the block; `at` is the block's first position.
void soften(const Fixed16Attention& tile, int query, int at, int begin, int end, int low, int high, Softmax& state) {
  float* const scores = reinterpret_cast<float*>(tile.scores + query * kFixed16ScoreStride);
  const __m512 minus_infinity = _mm512_set1_ps(-__builtin_inff());
  const auto seen = [&](int position) {
    const int from = low - position, to = high - position;
    const unsigned after = from <= 0 ? 0xffffu : from >= 16 ? 0u : 0xffffu << from;
    const unsigned before = to <= 0 ? 0u : to >= 16 ? 0xffffu : (1u << to) - 1;
    return static_cast<__mmask16>(after & before);
  };
  __m512 best = minus_infinity;
  for (int p = begin; p < end; p += 16) {
    const __m512 product = _mm512_cvtepi32_ps(_mm512_loadu_si512(scores + p));
    const __m512 score = _mm512_mask_mul_ps(minus_infinity, seen(p), product, _mm512_loadu_ps(tile.key_steps + at + p));
    _mm512_storeu_ps(scores + p, score);
    best = _mm512_max_ps(best, score);
  }
  const float largest = _mm512_reduce_max_ps(best), top = largest > state.top ? largest : state.top;
  const __m512 tops = _mm512_set1_ps(top), factor = _mm512_set1_ps(tile.q_steps[query]);
  __m512 total = _mm512_setzero_ps(), weighed = total, most = total;
  for (int p = begin; p < end; p += 16) {
    const __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + p), tops), factor);
    const __m512 weight = _mm512_maskz_mov_ps(seen(p), power_of_two(x));
    const __m512 times_value = _mm512_maskz_mul_ps(seen(p), weight, _mm512_loadu_ps(tile.value_steps + at + p));
    total = _mm512_add_ps(total, weight);
    weighed = _mm512_add_ps(weighed, times_value);
    most = _mm512_max_ps(most, times_value);
    _mm512_storeu_ps(scores + p, times_value);
  }
  const float sum = _mm512_reduce_add_ps(weighed), peak = _mm512_reduce_max_ps(most);
  const float by_sum = kFixed16WeightSum / sum, by_peak = static_cast<float>(kFixed16MostWeight) / peak;
  float inverse = by_sum < by_peak ? by_sum : by_peak;
  state.step = 1.0f / inverse;
  // Handles a sum that is zero, negligible or not finite.
  if (!(sum >= __builtin_bit_cast(float, kFixed16SmallestBits) && sum < __builtin_inff())) {
    inverse = 0;
    state.step = sum >= 0 && sum < 1 ? 0 : __builtin_nanf("");
  }
  for (int p = begin; p < end; p += 16) {
    const __mmask16 mask = inverse != 0 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>(0);
    const __m512i weight =
        _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, scores + p), _mm512_set1_ps(inverse)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile.weights + query * kFixed16Block + p),
                        _mm512_cvtepi32_epi16(weight));
  }
  // If the query has not attended to any position yet, both the sums and the factor are 0.
  const __m512 change = power_of_two(_mm512_set1_ps((state.top - top) * tile.q_steps[query]));
  state.keep = state.total == 0 ? 0.0f : _mm512_cvtss_f32(change);
  state.total = state.total * state.keep + _mm512_reduce_add_ps(total);
  state.top = top;
}

// Multiplies the block's values by their attention weights and adds the products to the sums of R queries. Covers S
// vectors of 16 dimensions of the head.
template <int R, int S>
[[gnu::always_inline]] inline void weigh(const Fixed16Attention& tile, int first, int from, int64_t lane,
                                         int64_t position, int pairs, const Softmax* states) {
  __m512i integers[R * S];
  dots<R, S>(tile.weights + first * kFixed16Block + from, tile.values + (position / 2 * tile.value_lanes + lane) * 2,
             2 * tile.value_lanes, pairs, integers);
  UNROLL for (int r = 0; r < R; ++r) {
    float* const sums = tile.sums + (first + r) * tile.value_lanes + lane;
    const __m512 keep = _mm512_set1_ps(states[first + r].keep), step = _mm512_set1_ps(states[first + r].step);
    UNROLL for (int s = 0; s < S; ++s)
        _mm512_storeu_ps(sums + 16 * s, _mm512_fmadd_ps(_mm512_cvtepi32_ps(integers[r * S + s]), step,
                                                        _mm512_mul_ps(_mm512_loadu_ps(sums + 16 * s), keep)));
  }
}

void attend(const Fixed16Attention& tile) {
  const int n = tile.n_queries, dim_pairs = (tile.head_dim + 1) / 2;
  const int64_t group = int64_t{dim_pairs} * kFixed16Lanes * 2;
  Softmax states[kFixed16Queries];
  for (int i = 0; i < n; ++i) states[i] = {-__builtin_inff(), 0, 0, 0};
  __builtin_memset(tile.sums, 0, static_cast<size_t>(n * tile.value_lanes) * sizeof(float));
  const int first_seen = tile.starts[0], end_seen = tile.limits[n - 1];
  for (int at = first_seen / kFixed16Block * kFixed16Block; at < end_seen; at += kFixed16Block) {
    const int low = first_seen > at ? first_seen - at : 0,
              high = end_seen - at < kFixed16Block ? end_seen - at : kFixed16Block;
    const int begin = low / kFixed16Lanes * kFixed16Lanes,
              end = (high + kFixed16Lanes - 1) / kFixed16Lanes * kFixed16Lanes;
    for_rows<kFixed16Rows>(n, [&](auto rows, int first) {
      constexpr int R = rows.value;
      for (int p = begin; p < end; p += kFixed16Lanes) {
        __m512i sums[R * 2];
        dots<R, 2>(tile.q + first * kFixed16Block, tile.keys + (at + p) / kFixed16Lanes * group, 2 * kFixed16Lanes,
                   dim_pairs, sums);
        UNROLL for (int r = 0; r < R; ++r) {
          int32_t* const to = tile.scores + (first + r) * kFixed16ScoreStride + p;
          _mm512_storeu_si512(to, sums[r * 2]);
          _mm512_storeu_si512(to + 16, sums[r * 2 + 1]);
        }
      }
    });
    for (int i = 0; i < n; ++i) {
      if (tile.starts[i] < at + end && tile.limits[i] > at + begin) {
        soften(tile, i, at, begin, end, tile.starts[i] - at, tile.limits[i] - at, states[i]);
      } else {  // The query attends to none of these positions.
        __builtin_memset(tile.weights + i * kFixed16Block + begin, 0,
                         static_cast<size_t>(end - begin) * sizeof(int16_t));
        states[i].keep = 1;
        states[i].step = 0;
      }
    }
    const int pairs = (end - begin) / 2;
    for (int64_t lane = 0, left = tile.value_lanes / 16; left > 0;) {
      if (left == 3) {
        for_rows<8>(n, [&](auto rows, int first) {
          weigh<rows.value, 3>(tile, first, begin, lane, at + begin, pairs, states);
        });
        break;
      }
      if (left == 1) {
        for_rows<kFixed16Rows>(n, [&](auto rows, int first) {
          weigh<rows.value, 1>(tile, first, begin, lane, at + begin, pairs, states);
        });
        break;
      }
      for_rows<kFixed16Rows>(
          n, [&](auto rows, int first) { weigh<rows.value, 2>(tile, first, begin, lane, at + begin, pairs, states); });
      lane += 32;
      left -= 2;
    }
  }
  for (int i = 0; i < n; ++i) {
    const __m512 share = _mm512_set1_ps(1.0f / states[i].total);
    float* const out = tile.out + i * tile.out_stride;
    for (int d = 0; d < tile.head_dim; d += 16) {
      const __mmask16 mask = first_lanes(tile.head_dim - d);
      _mm512_mask_storeu_ps(out + d, mask, _mm512_mul_ps(_mm512_loadu_ps(tile.sums + i * tile.value_lanes + d), share));
    }
  }
}

}  // namespace

constinit const Fixed16Kernels kAvx512Fixed16 = {.pack = pack, .multiply = multiply, .attend = attend};

}  // namespace monolith

#endif
