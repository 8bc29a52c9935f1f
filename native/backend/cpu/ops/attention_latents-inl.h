// Scores of queries against latents (StateKind::kLatents). All heads share the latent rows. A row is the key and its
// first dimensions are the value, so a page is read once for all queries of a tile, and its rows are stored in the same
// way as values. Compiled once per instruction set, inside an unnamed namespace, after ops/attention_packed-inl.h and
// before ops/attention-inl.h. This file contains the scores for float latents and for the sparse-attention indexer.
// Latents of other types use integer arithmetic (ops/attention_integers-inl.h).
//
// Order of arithmetic for each query and position: dimension d is added to partial sum d % 16 with fused multiply-add,
// in ascending order. The 16 sums are then folded as in sum_of_lanes(). Numbers with fewer than 32 bits are first
// converted to float.

// Numbers of rows and queries in a register tile. Each pair of a row and a query is an independent chain.
constexpr int kLatentRows = kAccumulators >= 24 ? 8 : 2, kLatentQueries = kAccumulators / kLatentRows;
static_assert(kPageTokens % kLatentRows == 0 && kLatentQueries <= 3);

// Returns a page's rows as floats, with the same stride as the queries, and prefetches the next page.
inline const float* latent_rows(const AttentionTile& tile, const float* page, const float* next) {
  for (int64_t i = 0; i < tile.value_stride * kPageTokens; i += kLanes)
    if constexpr (kPrefetchQueries > 0) prefetch(next + i);
  return page;
}
inline const float* latent_rows(const AttentionTile& tile, const int16_t* page, const int16_t* next) {
  const auto* steps = reinterpret_cast<const float*>(page + tile.value_stride * kPageTokens);
  for (int64_t row = 0; row < kPageTokens; ++row)
    for (int64_t d = 0; d < tile.q_stride; d += kLanes) {
      const int64_t at = row * tile.value_stride + d;
      if constexpr (kPrefetchQueries > 0) prefetch(next + at);
      store(tile.rows + row * tile.q_stride + d,
            mul(load(page + at), splat(steps[d / kLatentBlock * kPageTokens + row])));
    }
  return tile.rows;
}
inline const float* latent_rows(const AttentionTile& tile, const int8_t* page, const int8_t* next) {
  if (tile.unpacked != nullptr) {
    auto* const unpacked = reinterpret_cast<int8_t*>(tile.unpacked);
    unpack_rows(tile.type, tile.value_stride, reinterpret_cast<const uint8_t*>(page),
                reinterpret_cast<const uint8_t*>(next), unpacked);
    page = next = unpacked;
  }
  const auto* scales = reinterpret_cast<const uint16_t*>(page + tile.value_stride * kPageTokens);
  float factors[kPageTokens];
  for (int64_t d = 0; d < tile.q_stride; d += kLanes) {
    if (d % kQ8Block == 0) store(factors, load(scales + d / kQ8Block * kPageTokens));
    for (int64_t row = 0; row < kPageTokens; ++row) {
      const int64_t at = row * tile.value_stride + d;
      if constexpr (kPrefetchQueries > 0) prefetch(next + at);
      store(tile.rows + row * tile.q_stride + d, mul(load(page + at), splat(factors[row])));
    }
  }
  return tile.rows;
}

template <int Queries>
inline void dot_latents(const float* q, int64_t q_stride, const float* rows, int64_t stride, float* scores) {
  Vec sums[Queries][kLatentRows];
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int r = 0; r < kLatentRows; ++r) sums[i][r] = splat(0.0f);
  }
  for (int64_t d = 0; d < stride; d += kLanes) {
    Vec query[Queries];
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) query[i] = load(q + i * q_stride + d);
    MONOLITH_UNROLL
    for (int r = 0; r < kLatentRows; ++r) {
      const Vec row = load(rows + r * stride + d);
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) sums[i][r] = fma(query[i], row, sums[i][r]);
    }
  }
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int r = 0; r < kLatentRows; ++r) scores[i * kScoreStride + r] = sum_of_lanes(sums[i][r]);
  }
}

// Computes the scores of all queries against one page. `scores` points to the scores of the first query. `next` is the
// page to prefetch.
template <typename T>
[[gnu::noinline]] void score_latents(const AttentionTile& tile, const T* page, const T* next, float* scores) {
  const float* const rows = latent_rows(tile, page, next);
  const int64_t stride = tile.q_stride;
  const auto all_rows = [&](auto of_some_rows) {
    for (int r = 0; r < kPageTokens; r += kLatentRows) of_some_rows(rows + r * stride, scores + r);
  };
  int i = 0;
  for (; i + kLatentQueries <= tile.n_queries; i += kLatentQueries)
    all_rows([&](const float* from, float* to) {
      dot_latents<kLatentQueries>(tile.q + i * int64_t{tile.q_stride}, tile.q_stride, from, stride,
                                  to + i * kScoreStride);
    });
  if (tile.n_queries - i == 2)
    all_rows([&](const float* from, float* to) {
      dot_latents<2>(tile.q + i * int64_t{tile.q_stride}, tile.q_stride, from, stride, to + i * kScoreStride);
    });
  else if (tile.n_queries - i == 1)
    all_rows([&](const float* from, float* to) {
      dot_latents<1>(tile.q + i * int64_t{tile.q_stride}, tile.q_stride, from, stride, to + i * kScoreStride);
    });
}

// Replaces NaN with minus infinity, so that a NaN is never preferred to a number.
template <typename T>
void index_page_of(const AttentionTile& tile, const std::byte* page, const std::byte* next, const float* weights,
                   bool first, float* scores) {
  score_latents(tile, reinterpret_cast<const T*>(page), reinterpret_cast<const T*>(next), tile.scores);
  Vec sum = first ? splat(0.0f) : load(scores);
  for (int i = 0; i < tile.n_queries; ++i)
    sum = fma(splat(weights[i]), max(load(tile.scores + i * kScoreStride), splat(0.0f)), sum);
  store(scores, max(sum, minus_infinity()));
}

void index_page(const AttentionTile& tile, const std::byte* page, const std::byte* next, const float* weights,
                bool first, float* scores) {
  switch (tile.type) {
    case KvType::kF16: return index_page_of<int16_t>(tile, page, next, weights, first, scores);
    case KvType::kQ8_0:
    case KvType::kQ4_0:
    case KvType::kQ5_0: return index_page_of<int8_t>(tile, page, next, weights, first, scores);
    case KvType::kF32: return index_page_of<float>(tile, page, next, weights, first, scores);
    case KvType::kFp8: return;  // Rejected by CpuBackend::supports().
  }
}
