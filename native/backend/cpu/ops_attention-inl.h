// Attention over one span of positions for a tile of queries. Compiled once per instruction set,
// inside an unnamed namespace, after one ops_vector_*.h, ops_rows-inl.h and ops_attention_q8-inl.h.
//
// Order of arithmetic, for each query and head alone (8-bit pages: score and values as in
// ops_attention_q8-inl.h):
//   score     one chain of fused multiply-adds over head_dim, ascending; then the soft cap, if any
//   softmax   per span of kAttentionSpan absolute positions: largest score, exp(score - largest),
//             their sum in 16 lanes (position % 16), ascending, lanes folded at the end; positions
//             before the query's window count as zero
//   values    per dimension one chain of fused multiply-adds over the span's positions, ascending
//   spans     merged one after another, ascending: attention_merge
// Register tiles only decide which independent chains advance side by side. Lanes and positions
// outside a query's own are computed at most as scores and then replaced, never multiplied: stale
// pages may hold NaN.

// Scores of Queries queries, from `first` on (packed in blocks of kQueryBlock), against Pages pages.
template <int Queries, int Pages, typename T>
inline void score_pages(const float* packed, int first, int head_dim, const T* const* pages,
                        float* scores) {
  const float* q = packed + static_cast<int64_t>(first) * head_dim;
  constexpr int kBlocks = (Queries + kQueryBlock - 1) / kQueryBlock;
  constexpr int kPerBlock = Queries < kQueryBlock ? Queries : kQueryBlock;
  Vec sums[Pages][Queries];
  MONOLITH_UNROLL
  for (int p = 0; p < Pages; ++p) {
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i)
      sums[p][i] = splat(0.0f);
  }
  const int64_t block_floats = static_cast<int64_t>(head_dim) * kQueryBlock;
  for (int64_t d = 0; d < head_dim; ++d) {
    Vec keys[Pages];
    MONOLITH_UNROLL
    for (int p = 0; p < Pages; ++p) {
      keys[p] = load(pages[p] + d * kPageTokens);
      if constexpr (kFetchesAhead<Queries>)
        prefetch(pages[p + kScoresAhead<Pages>] + d * kPageTokens);
    }
    MONOLITH_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      MONOLITH_UNROLL
      for (int i = 0; i < kPerBlock; ++i) {
        const Vec query = splat(q[b * block_floats + d * kQueryBlock + i]);
        MONOLITH_UNROLL
        for (int p = 0; p < Pages; ++p)
          sums[p][b * kQueryBlock + i] = fma(query, keys[p], sums[p][b * kQueryBlock + i]);
      }
    }
  }
  MONOLITH_UNROLL
  for (int p = 0; p < Pages; ++p) {
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i)
      store(scores + i * kScoreStride + p * kPageTokens, sums[p][i]);
  }
}

// Adds `count` positions of one page, weighted, to Vectors vectors of dimensions of Queries states.
template <int Queries, int Vectors, typename T>
inline void weigh_values(const float* weights, const T* values, const T* ahead,
                         int64_t value_stride, int count, float* states, int64_t state_floats) {
  Vec sums[Queries][Vectors];
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v)
      sums[i][v] = load(states + i * state_floats + v * kLanes);
  }
  for (int position = 0; position < count;
       ++position, values += value_stride, ahead += value_stride) {
    Vec value[Vectors];
    if constexpr (kFetchesAhead<Queries>) prefetch_row<Vectors * kLanes>(ahead);
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v)
      value[v] = load(values + v * kLanes);
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) {
      const Vec weight = splat(weights[i * kScoreStride + position]);
      MONOLITH_UNROLL
      for (int v = 0; v < Vectors; ++v)
        sums[i][v] = fma(weight, value[v], sums[i][v]);
    }
  }
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v)
      store(states + i * state_floats + v * kLanes, sums[i][v]);
  }
}

// Positions [low, high) of one page.
template <int Queries, typename T>
inline void weigh_page(const float* weights, const T* page, const T* ahead, int64_t value_stride,
                       int low, int high, int padded_dim, float* states, int64_t state_floats) {
  constexpr int kVectors = kAccumulators / Queries < 4 ? kAccumulators / Queries : 4;
  const T* values = page + low * value_stride;
  const T* next = ahead + low * value_stride;
  int d = 0;
  for (; d + kVectors * kLanes <= padded_dim; d += kVectors * kLanes)
    weigh_values<Queries, kVectors>(weights + low, values + d, next + d, value_stride, high - low,
                                    states + d, state_floats);
  for (; d < padded_dim; d += kLanes)
    weigh_values<Queries, 1>(weights + low, values + d, next + d, value_stride, high - low,
                             states + d, state_floats);
}

template <int Queries, typename T>
inline void score_run(const float* packed, int first, int head_dim, const T* const* pages,
                      int n_pages, float* scores) {
  constexpr int kPages = kAccumulators / Queries < 4 ? kAccumulators / Queries : 4;
  int p = 0;
  for (; p + kPages <= n_pages; p += kPages)
    score_pages<Queries, kPages>(packed, first, head_dim, pages + p, scores + p * kPageTokens);
  for (; p < n_pages; ++p)
    score_pages<Queries, 1>(packed, first, head_dim, pages + p, scores + p * kPageTokens);
}

// Splits queries [0, n) into register tiles and calls fn with each tile's size, as a type, and
// first query. The last tile is rounded up: what it computes past n is never read.
template <int Size>
struct TileSize {
  static constexpr int value = Size;
};
template <typename Fn>
inline void for_register_tiles(int n, Fn fn) {
  int i = 0;
  if constexpr (kRegisterQueries == 8)
    for (; n - i > 4; i += 8)
      fn(TileSize<8>(), i);
  for (; n - i > 2; i += 4)
    fn(TileSize<4>(), i);
  if (n - i == 2) fn(TileSize<2>(), i);
  if (n - i == 1) fn(TileSize<1>(), i);
}

// scores -> weights in place for the positions [begin, end); writes the largest score and the sum of
// weights. Weights of begin's vector that lie before it become 0.
inline void softmax_weights(float* scores, int begin, int end, float* largest, float* sum) {
  const int first_vector = begin / kLanes * kLanes;
  const int whole = end / kLanes * kLanes, rest = end % kLanes;
  if (begin > first_vector) {
    float* at = scores + first_vector;
    store(at, first(begin - first_vector, minus_infinity(), load(at)));
  }
  Vec best = minus_infinity();
  for (int at = first_vector; at < whole; at += kLanes)
    best = max(load(scores + at), best);
  if (rest > 0) best = max(first(rest, load(scores + whole), best), best);
  const float top = max_of_lanes(best);
  const Vec offset = splat(top);
  Vec total = splat(0.0f);
  for (int at = first_vector; at < whole; at += kLanes) {
    const Vec weight = exponential(sub(load(scores + at), offset));
    store(scores + at, weight);
    total = add(total, weight);
  }
  if (rest > 0) {
    const Vec weight = first(rest, exponential(sub(load(scores + whole), offset)), splat(0.0f));
    store(scores + whole, weight);
    total = add(total, weight);
  }
  *largest = top;
  *sum = sum_of_lanes(total);
}

template <typename T>
void attention_span_of(const AttentionTile& tile, int span, float* states) {
  const int begin = span * kAttentionSpan;
  const int64_t state_floats = attention_state_floats(tile.head_dim);
  const int padded_dim = static_cast<int>(round_up_to_lanes(tile.head_dim));
  // Positions [from(i), to(i)) of this span are what query i sees of it.
  const auto within = [&](int position) {
    const int n = position - begin;
    return n < 0 ? 0 : n > kAttentionSpan ? kAttentionSpan : n;
  };
  const auto from = [&](int i) { return within(tile.starts[i]); };
  const auto to = [&](int i) { return within(tile.limits[i]); };
  const int first_page = from(0) / kPageTokens;
  const int n_pages = (to(tile.n_queries - 1) + kPageTokens - 1) / kPageTokens;
  if (n_pages <= first_page) return;
  // The last entries are only fetched ahead: of the next span where there is one.
  const int n_sequence_pages = (tile.limits[tile.n_queries - 1] + kPageTokens - 1) / kPageTokens;
  const T* keys[kAttentionSpan / kPageTokens + kMostPagesAhead];
  const T* values[kAttentionSpan / kPageTokens + kMostPagesAhead];
  for (int p = first_page; p < n_pages + kMostPagesAhead; ++p) {
    const int index = begin / kPageTokens + p;
    const auto page =
        static_cast<size_t>(tile.pages[index < n_sequence_pages ? index : n_sequence_pages - 1]);
    keys[p] = reinterpret_cast<const T*>(tile.keys + page * tile.key_page_bytes);
    values[p] = reinterpret_cast<const T*>(tile.values + page * tile.value_page_bytes);
  }

  // A few pages at a time stay in the first-level cache while every register tile passes over them.
  constexpr int kPageRun = 4;
  for (int p = first_page; p < n_pages; p += kPageRun) {
    const int run = n_pages - p < kPageRun ? n_pages - p : kPageRun;
    for_register_tiles(tile.n_queries, [&](auto size, int i) {
      score_run<size.value>(tile.q, i, tile.head_dim, keys + p, run,
                            tile.scores + i * kScoreStride + p * kPageTokens);
    });
  }

  for (int i = 0; i < tile.n_queries; ++i) {
    float* state = states + i * state_floats;
    for (int d = 0; d < padded_dim; d += kLanes)
      store(state + d, splat(0.0f));
    if (from(i) >= to(i)) continue;
    float* scores = tile.scores + i * kScoreStride;
    if (tile.soft_cap > 0) soft_cap(scores + from(i), to(i) - from(i), tile.soft_cap);
    softmax_weights(scores, from(i), to(i), state + padded_dim, state + padded_dim + 1);
  }

  for (int p = first_page; p < n_pages; ++p) {
    const int at = p * kPageTokens;
    const auto within_page = [&](int n) {
      n -= at;
      return n < 0 ? 0 : n > kPageTokens ? kPageTokens : n;
    };
    for_register_tiles(tile.n_queries, [&](auto size, int i) {
      const float* weights = tile.scores + i * kScoreStride + at;
      float* state = states + i * state_floats;
      const auto alone = [&](int j, int low, int high) {
        if (low < high)
          weigh_page<1>(weights + j * kScoreStride, values[p], values[p], tile.value_stride, low,
                        high, padded_dim, state + j * state_floats, state_floats);
      };
      // Starts and limits ascend: all queries of a register tile see what is both behind the last
      // one's start and before the first one's limit; the rest is theirs alone, before and after.
      const int high = within_page(to(i));
      int low = within_page(from(i + size.value - 1));
      if (low > high) low = high;
      if (low > 0)
        for (int j = 0; j < size.value && i + j < tile.n_queries; ++j)
          alone(j, within_page(from(i + j)), low);
      if (low < high)
        weigh_page<size.value>(weights, values[p], values[p + kPagesAhead], tile.value_stride, low,
                               high, padded_dim, state, state_floats);
      for (int j = 1; j < size.value && i + j < tile.n_queries; ++j) {
        const int own = within_page(from(i + j));
        alone(j, high > own ? high : own, within_page(to(i + j)));
      }
    });
  }
}

void attention_span(const AttentionTile& tile, int span, float* states) {
  switch (tile.type) {
    case KvType::kF16: return attention_span_of<uint16_t>(tile, span, states);
    case KvType::kQ8_0: return attention_span_of<int8_t>(tile, span, states);
    case KvType::kF32: return attention_span_of<float>(tile, span, states);
  }
}

// Both states are relative to their own largest score; the result to the larger of the two.
void attention_merge(float* state, const float* next, int head_dim) {
  const int64_t padded_dim = round_up_to_lanes(head_dim);
  const float top = state[padded_dim] > next[padded_dim] ? state[padded_dim] : next[padded_dim];
  float factors[kLanes] = {state[padded_dim] - top, next[padded_dim] - top};
  store(factors, exponential(load(factors)));
  const Vec a = splat(factors[0]), b = splat(factors[1]);
  for (int64_t d = 0; d < padded_dim; d += kLanes)
    store(state + d, fma(load(next + d), b, mul(load(state + d), a)));
  state[padded_dim] = top;
  state[padded_dim + 1] = state[padded_dim + 1] * factors[0] + next[padded_dim + 1] * factors[1];
}

void attention_finish(const float* state, int head_dim, float* out) {
  const Vec scale = splat(1.0f / state[round_up_to_lanes(head_dim) + 1]);
  for_vectors(head_dim,
              [&](int64_t at, int n) { store_up_to(out + at, mul(load(state + at), scale), n); });
}
