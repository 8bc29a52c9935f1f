// Attention over keys and values of 8 bits (KvType::kQ8_0), and of 4 and 5 bits after they have been unpacked
// (ops/attention_packed-inl.h). Also the quantization of keys, values and queries. CpuKvCache in ops.h describes the
// layout of the pages. Compiled once per instruction set, inside an unnamed namespace, after
// ops/rows-inl.h and before ops/attention-inl.h.
//
// Order of arithmetic for each query and head:
//   score    per block of kQ8Block dimensions the exact integer dot product of the query and the key,
//            then fma(product, key scale * query scale, score), blocks ascending
//   values   the weight times the value's scale, then one chain of fused multiply-adds over the
//            positions, ascending, per dimension
//
// Keys are stored with 128 added (packed types: packed_zero()), because the byte products need one unsigned operand. To
// compensate, each dot product starts at minus that number times the sum of the query's block.

// Returns the number of vectors (of positions or dimensions) that a register tile of `queries` queries processes.
constexpr int vectors_beside(int accumulators, int queries) {
  const int n = accumulators / queries;
  return n >= 4 ? 4 : n >= 2 ? 2 : 1;
}
template <int Queries>
constexpr int kTileVectors = vectors_beside(kAccumulators, Queries);
// kScorePages corresponds to kTileVectors, for score computations with keys of type T. kScoreQueries is the maximum
// number of queries in such a register tile.
template <int Queries, typename T>
constexpr int kScorePages = vectors_beside(sizeof(T) == 1 ? kByteAccumulators : kAccumulators, Queries);
template <typename T>
constexpr int kScoreQueries = sizeof(T) == 1 ? kByteQueries : kRegisterQueries;
// Number of pages that all register tiles of a tile process before they continue with the next pages.
constexpr int kPageRun = 4;

// Register tiles prefetch pages while they compute: with each row of a page, they prefetch the same row of a later
// page, which hides the latency behind the arithmetic. The following alternatives were slower on Zen 5, at least with
// heads of 128 dimensions (bench/results): prefetching two or eight pages ahead, prefetching into L2 or into both
// caches, and prefetching whole pages at a time.
constexpr int kPagesAhead = 4;
template <int Queries>
constexpr bool kFetchesAhead = kPrefetchQueries > 0 && Queries >= kPrefetchQueries;

// Prefetches the cache lines of `Numbers` numbers, starting at `row`.
template <int Numbers, typename T>
inline void prefetch_row(const T* row) {
  constexpr int kPerLine = 64 / static_cast<int>(sizeof(T));
  MONOLITH_UNROLL
  for (int i = 0; i < Numbers; i += kPerLine) prefetch(row + i);
}

inline Vec absolute(Vec x) { return max(x, sub(splat(0.0f), x)); }

// Rounds to integers in -127 .. 127, ties to even, and stores them. NaN becomes -127; its block's scale is NaN.
inline void store_clamped(int8_t* to, Vec x) {
  x = if_less(splat(127.0f), x, splat(127.0f), x);
  store(to, max(x, splat(-127.0f)));
}

// A block of values. If there are only n < kQ8Block values, the remaining ones are zero.
struct Q8Values {
  Vec low, high;
};
inline Q8Values load_q8_values(const float* x, int n) {
  return {load_up_to(x, n < kLanes ? n : kLanes), n > kLanes ? load_up_to(x + kLanes, n - kLanes) : splat(0.0f)};
}
inline float largest_of(const Q8Values& x) { return max_of_lanes(max(absolute(x.low), absolute(x.high))); }
// Returns 0, or NaN if any value is NaN or infinite. The result is added to a scale, so NaN propagates as in float
// arithmetic.
inline float poison_of(const Q8Values& x) {
  const Vec zero = splat(0.0f);
  return sum_of_lanes(fma(x.low, zero, mul(x.high, zero)));
}

void quantize_q8(const float* x, int n, int8_t* out, uint16_t* scale) {
  const Q8Values values = load_q8_values(x, n);
  const float wanted = largest_of(values) / 127.0f;
  const float in_range = wanted > 65504.0f ? 65504.0f : wanted;  // 65504 is the largest binary16 number.
  uint16_t halves[kLanes];
  float stored[kLanes];
  store(halves, splat(in_range + poison_of(values)));
  store(stored, load(halves));
  // Divides by the scale that is stored, after rounding, so that rounding the scale adds no error.
  const Vec inverse = splat(stored[0] > 0.0f ? 1.0f / stored[0] : 0.0f);
  store_clamped(out, mul(values.low, inverse));
  store_clamped(out + kLanes, mul(values.high, inverse));
  *scale = halves[0];
}

void quantize_packed(const float* x, int n, int zero, int8_t* out, uint16_t* scale) {
  const Q8Values values = load_q8_values(x, n);
  const float largest = largest_of(values), highest = max_of_lanes(max(values.low, values.high));
  const auto low = static_cast<float>(-zero), high = static_cast<float>(zero - 1);
  const float wanted = (highest == largest ? largest : -largest) / low;
  const float in_range = wanted > 65504.0f ? 65504.0f : wanted < -65504.0f ? -65504.0f : wanted;
  uint16_t halves[kLanes];
  float stored[kLanes];
  store(halves, splat(in_range + poison_of(values)));
  store(stored, load(halves));
  const Vec inverse = splat(stored[0] > 0.0f || stored[0] < 0.0f ? 1.0f / stored[0] : 0.0f);
  const auto store_in_range = [&](int8_t* to, Vec v) {
    v = if_less(splat(high), v, splat(high), v);
    store(to, max(v, splat(low)));
  };
  store_in_range(out, mul(values.low, inverse));
  store_in_range(out + kLanes, mul(values.high, inverse));
  *scale = halves[0];
}

// Packed queries for the score kernel: [quad][query][kQueryWords], then scales [block][query] and offsets
// [block][query], each with room for `stride` queries.
struct Q8Queries {
  uint32_t* words;
  float* scales;
  int32_t* offsets;
};
inline Q8Queries q8_queries(const float* packed, int head_dim, int stride) {
  auto* words = reinterpret_cast<uint32_t*>(const_cast<float*>(packed));
  uint32_t* scales = words + int64_t{stride} * q8_quads(head_dim) * kQueryWords;
  return {words, reinterpret_cast<float*>(scales),
          reinterpret_cast<int32_t*>(scales + int64_t{stride} * q8_blocks(head_dim))};
}

void pack_query_q8(const float* x, int head_dim, float scale, int zero, int i, int stride, float* packed) {
  const Q8Queries queries = q8_queries(packed, head_dim, stride);
  for (int block = 0; block < q8_blocks(head_dim); ++block) {
    const int first = block * kQ8Block, left = head_dim - first;
    const int n = left < kQ8Block ? left : kQ8Block;
    int8_t numbers[kQ8Block] = {};
    float block_scale = 0.0f;
    const Q8Values values = load_q8_values(x + first, n);
    const float largest = largest_of(values);
    if (largest > 0x1p-100f) {  // Ensures that 127 / largest is finite.
      const Vec inverse = splat(127.0f / largest);
      store_clamped(numbers, mul(values.low, inverse));
      store_clamped(numbers + kLanes, mul(values.high, inverse));
      block_scale = largest / 127.0f;
    }
    block_scale = (block_scale + poison_of(values)) * scale;
    int32_t sum = 0;
    for (int d = 0; d < kQ8Block; ++d) sum += numbers[d];
    for (int d = 0; d < n; d += 4)
      pack_query_quad(numbers + d, queries.words + ((first + d) / 4 * stride + i) * kQueryWords);
    queries.scales[block * stride + i] = block_scale;
    queries.offsets[block * stride + i] = -zero * sum;
  }
}

template <int Queries, int Pages>
inline void score_pages(const AttentionTile& tile, int first, const int8_t* const* pages, float* scores) {
  const int n_quads = q8_quads(tile.key_dim), n_blocks = q8_blocks(tile.key_dim);
  const int64_t stride = tile.q_stride;
  Q8Queries queries = q8_queries(tile.q, tile.key_dim, tile.q_stride);
  queries = {queries.words + first * kQueryWords, queries.scales + first, queries.offsets + first};
  for (int block = 0; block < n_blocks; ++block) {
    Ints sums[Pages][Queries];
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) {
      const Ints offset = splat_int(queries.offsets[block * stride + i]);
      MONOLITH_UNROLL
      for (int p = 0; p < Pages; ++p) sums[p][i] = offset;
    }
    const int begin = block * (kQ8Block / 4), left = n_quads - begin;
    const int end = begin + (left < kQ8Block / 4 ? left : kQ8Block / 4);
    for (int64_t quad = begin; quad < end; ++quad) {
      Quads keys[Pages];
      MONOLITH_UNROLL
      for (int p = 0; p < Pages; ++p) {
        keys[p] = load_quads(pages[p] + quad * 4 * kPageTokens);
        if constexpr (kFetchesAhead<Queries>) prefetch(pages[p + kPagesAhead] + quad * 4 * kPageTokens);
      }
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) {
        const QueryQuad query = splat_query(queries.words + (quad * stride + i) * kQueryWords);
        MONOLITH_UNROLL
        for (int p = 0; p < Pages; ++p) sums[p][i] = dot(sums[p][i], keys[p], query);
      }
    }
    MONOLITH_UNROLL
    for (int p = 0; p < Pages; ++p) {
      const auto* scales = reinterpret_cast<const uint16_t*>(pages[p] + n_quads * 4 * kPageTokens);
      const Vec key_scale = load(scales + block * kPageTokens);
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) {
        const Vec query_scale = splat(queries.scales[block * stride + i]);
        float* score = scores + i * kScoreStride + p * kPageTokens;
        const Vec before = block == 0 ? splat(0.0f) : load(score);
        store(score, fma(to_floats(sums[p][i]), mul(key_scale, query_scale), before));
      }
    }
  }
}

// weigh_q8_values() adds the weighted values of positions [low, high), counted from the first of `pages`, to the states
// of `Queries` queries, for `Vectors` vectors of dimensions starting at d. `weights` [Blocks][Queries][kRunPositions]
// include the scales. Packed: the numbers have 4 bits (KvType::kQ4_0), and Vectors is even.
constexpr int kRunPositions = kPageRun * kPageTokens;
template <int Queries, int Blocks, int Vectors, bool Packed>
inline void weigh_q8_values(const float* weights, const int8_t* const* pages, int64_t value_stride, int d, int low,
                            int high, float* states, int64_t state_floats) {
  constexpr int kPerBlock = Vectors / Blocks, kPerByte = Packed ? 2 : 1;
  Vec sums[Queries][Vectors];
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v) sums[i][v] = load(states + i * state_floats + d + v * kLanes);
  }
  for (int position = low; position < high;) {
    const int page = position / kPageTokens, within = position % kPageTokens;
    const int end = high < (page + 1) * kPageTokens ? high : (page + 1) * kPageTokens;
    const int64_t at = (within * value_stride + d) / kPerByte, stride = value_stride / kPerByte;
    const int8_t* values = pages[page] + at;
    const int8_t* ahead = pages[page + kPagesAhead] + at;
    for (; position < end; ++position, values += stride, ahead += stride) {
      Vec value[Vectors];
      if constexpr (kFetchesAhead<Queries>) prefetch_row<Vectors * kLanes / kPerByte>(ahead);
      if constexpr (Packed) {
        MONOLITH_UNROLL
        for (int v = 0; v < Vectors; v += 2)
          load_packed(reinterpret_cast<const uint8_t*>(values + v * kLanes / 2), value[v], value[v + 1]);
      } else {
        MONOLITH_UNROLL
        for (int v = 0; v < Vectors; ++v) value[v] = load(values + v * kLanes);
      }
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) {
        MONOLITH_UNROLL
        for (int b = 0; b < Blocks; ++b) {
          const Vec weight = splat(weights[(b * Queries + i) * kRunPositions + position]);
          MONOLITH_UNROLL
          for (int v = b * kPerBlock; v < (b + 1) * kPerBlock; ++v) sums[i][v] = fma(weight, value[v], sums[i][v]);
        }
      }
    }
  }
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v) store(states + i * state_floats + d + v * kLanes, sums[i][v]);
  }
}

// Like weigh_run() for floats. The scales are stored after each page's values. Packed: `padded_dim` is a multiple of
// kQ8Block.
template <int Queries, bool Packed>
[[gnu::noinline]] void weigh_bytes(const float* weights, const int8_t* const* pages, int64_t value_stride, int low,
                                   int high, int padded_dim, float* states, int64_t state_floats) {
  constexpr int kVectors = kTileVectors<Queries>;
  const int first = low / kPageTokens, n = (high + kPageTokens - 1) / kPageTokens - first;
  pages += first;
  weights += first * kPageTokens;
  low -= first * kPageTokens;
  high -= first * kPageTokens;
  float scaled[2 * Queries * kRunPositions];
  const auto scale = [&](int block, float* to) {
    for (int p = 0; p < n; ++p) {
      const auto* scales = reinterpret_cast<const uint16_t*>(pages[p] + value_stride * kPageTokens / (Packed ? 2 : 1));
      const Vec factor = load(scales + block * kPageTokens);
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i)
        store(to + i * kRunPositions + p * kPageTokens,
              mul(load(weights + i * kScoreStride + p * kPageTokens), factor));
    }
  };
  int d = 0;
  if constexpr (kVectors >= 4)
    for (; d + 2 * kQ8Block <= padded_dim; d += 2 * kQ8Block) {
      scale(d / kQ8Block, scaled);
      scale(d / kQ8Block + 1, scaled + Queries * kRunPositions);
      weigh_q8_values<Queries, 2, 4, Packed>(scaled, pages, value_stride, d, low, high, states, state_floats);
    }
  for (; d < padded_dim; d += kQ8Block) {
    scale(d / kQ8Block, scaled);
    if constexpr (kVectors >= 2)
      if (d + kQ8Block <= padded_dim) {
        weigh_q8_values<Queries, 1, 2, Packed>(scaled, pages, value_stride, d, low, high, states, state_floats);
        continue;
      }
    if constexpr (!Packed)
      for (int v = d; v < padded_dim && v < d + kQ8Block; v += kLanes)
        weigh_q8_values<Queries, 1, 1, false>(scaled, pages, value_stride, v, low, high, states, state_floats);
  }
}

template <int Queries>
inline void weigh_run(const float* weights, const int8_t* const* pages, int64_t value_stride, int low, int high,
                      int padded_dim, float* states, int64_t state_floats) {
  weigh_bytes<Queries, false>(weights, pages, value_stride, low, high, padded_dim, states, state_floats);
}
