// Scores of queries against latents (StateKind::kLatents): rows of numbers that all heads share, each the key and, in
// its first dimensions, the value. So a page is read once for all queries of a tile, and its rows lie as values do.
// Compiled once per instruction set, inside an unnamed namespace, after ops/attention_q8-inl.h and before
// ops/attention-inl.h. These are the scores of floats, and of an index; other latents are attended to in whole numbers
// (ops/attention_integers-inl.h).
//
// Order of arithmetic, for each query and position alone: dimension d goes to partial sum d % 16, each in ascending
// order with fused multiply-add; the 16 are then folded as sum_of_lanes() does. Numbers of less than 32 bits become
// floats first.

// Rows and queries of a register tile: each its own chain.
constexpr int kLatentRows = kAccumulators >= 24 ? 8 : 2, kLatentQueries = kAccumulators / kLatentRows;
static_assert(kPageTokens % kLatentRows == 0 && kLatentQueries <= 3);

// A page's rows as floats, a query's stride apart, and the lines of the page that comes next asked for.
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

// Of all queries against one page; `scores` of the first query. `next`: the page that will be read after it.
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

// What is no number becomes minus infinity: it is never chosen before what is one.
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
    case KvType::kQ8_0: return index_page_of<int8_t>(tile, page, next, weights, first, scores);
    case KvType::kF32: return index_page_of<float>(tile, page, next, weights, first, scores);
    case KvType::kFp8: return;  // refused: Backend::can_keep
  }
}
