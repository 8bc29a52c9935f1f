// Attention over one span of positions for a tile of queries. Compiled once per instruction set, inside an unnamed
// namespace, after one vector_*.h, ops/rows-inl.h, ops/attention_q8-inl.h, ops/attention_packed-inl.h and
// ops/attention_latents-inl.h. Latents that are not floats are handled in ops/attention_integers-inl.h.
//
// Order of arithmetic for each query and head. For 8-bit pages, scores and values are computed as in
// ops/attention_q8-inl.h.
//   score     one chain of fused multiply-adds over key_dim, ascending; for latents as in
//             ops/attention_latents-inl.h; then the soft cap, if any
//   softmax   per span of kAttentionSpan absolute positions: largest score, exp(score - largest),
//             their sum in 16 lanes (position % 16), ascending, lanes folded at the end; positions
//             before the query's window count as zero
//   values    per dimension one chain of fused multiply-adds over the span's positions, ascending
//   spans     merged one after another, ascending: merge_state
//
// Register tiles only determine which independent chains advance in parallel. Lanes and positions that a query does not
// attend to may be scored, but their scores are then replaced, and their values are never multiplied, because stale
// pages may contain NaN.

// Computes the scores of `Queries` queries, starting with query `first`, against `Pages` pages.
template <int Queries, int Pages, typename T>
inline void score_pages(const AttentionTile& tile, int first, const T* const* pages, float* scores) {
  Vec sums[Pages][Queries];
  MONOLITH_UNROLL
  for (int p = 0; p < Pages; ++p) {
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) sums[p][i] = splat(0.0f);
  }
  const float* q = tile.q + first;
  const int64_t q_stride = tile.q_stride, end = int64_t{tile.key_dim} * kPageTokens;
  for (int64_t at = 0; at < end; at += kPageTokens, q += q_stride) {
    Vec keys[Pages];
    MONOLITH_UNROLL
    for (int p = 0; p < Pages; ++p) {
      keys[p] = load(pages[p] + at);
      if constexpr (kFetchesAhead<Queries>) prefetch(pages[p + kPagesAhead] + at);
    }
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) {
      const Vec query = splat(q[i]);
      MONOLITH_UNROLL
      for (int p = 0; p < Pages; ++p) sums[p][i] = fma(query, keys[p], sums[p][i]);
    }
  }
  MONOLITH_UNROLL
  for (int p = 0; p < Pages; ++p) {
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) store(scores + i * kScoreStride + p * kPageTokens, sums[p][i]);
  }
}

// Computes the scores of the queries against a run of pages. `scores` points to the scores of the first query and page.
template <int Queries, typename T>
[[gnu::noinline]] void score_run(const AttentionTile& tile, int first, const T* const* pages, int n_pages,
                                 float* scores) {
  constexpr int kPages = kScorePages<Queries, T>;
  int p = 0;
  for (; p + kPages <= n_pages; p += kPages)
    score_pages<Queries, kPages>(tile, first, pages + p, scores + p * kPageTokens);
  for (; p < n_pages; ++p) score_pages<Queries, 1>(tile, first, pages + p, scores + p * kPageTokens);
}

// Adds the weighted values of the span's positions [low, high) to the states of `Queries` queries, for `Vectors`
// vectors of dimensions starting at d. `weights` and `pages` start at the beginning of the span.
template <int Queries, int Vectors, typename T>
inline void weigh_values(const float* weights, const T* const* pages, int64_t value_stride, int d, int low, int high,
                         float* states, int64_t state_floats) {
  Vec sums[Queries][Vectors];
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v) sums[i][v] = load(states + i * state_floats + d + v * kLanes);
  }
  for (int position = low; position < high;) {
    const int page = position / kPageTokens, within = position % kPageTokens;
    const int end = high < (page + 1) * kPageTokens ? high : (page + 1) * kPageTokens;
    const T* values = pages[page] + within * value_stride + d;
    const T* ahead = pages[page + kPagesAhead] + within * value_stride + d;
    for (; position < end; ++position, values += value_stride, ahead += value_stride) {
      Vec value[Vectors];
      if constexpr (kFetchesAhead<Queries>) prefetch_row<Vectors * kLanes>(ahead);
      MONOLITH_UNROLL
      for (int v = 0; v < Vectors; ++v) value[v] = load(values + v * kLanes);
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) {
        const Vec weight = splat(weights[i * kScoreStride + position]);
        MONOLITH_UNROLL
        for (int v = 0; v < Vectors; ++v) sums[i][v] = fma(weight, value[v], sums[i][v]);
      }
    }
  }
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v) store(states + i * state_floats + d + v * kLanes, sums[i][v]);
  }
}

// Adds the weighted values of the positions in at most kPageRun pages to the states, for all dimensions.
template <int Queries, typename T>
[[gnu::noinline]] void weigh_run(const float* weights, const T* const* pages, int64_t value_stride, int low, int high,
                                 int padded_dim, float* states, int64_t state_floats) {
  constexpr int kVectors = kTileVectors<Queries>;
  int d = 0;
  for (; d + kVectors * kLanes <= padded_dim; d += kVectors * kLanes)
    weigh_values<Queries, kVectors>(weights, pages, value_stride, d, low, high, states, state_floats);
  for (; d < padded_dim; d += kLanes)
    weigh_values<Queries, 1>(weights, pages, value_stride, d, low, high, states, state_floats);
}

// for_register_tiles() splits queries [0, n) into register tiles. It calls fn with each tile's size (as a type) and its
// first query.
template <int Size>
struct TileSize {
  static constexpr int value = Size;
};
template <int Size, typename Fn>
inline void register_tile_of(int n, int i, Fn& fn) {
  if constexpr (Size > 0) {
    if (n == Size)
      fn(TileSize<Size>(), i);
    else
      register_tile_of<Size - 1>(n, i, fn);
  }
}
template <int Most, typename Fn>
inline void for_register_tiles(int n, Fn fn) {
  int i = 0;
  for (; n - i >= Most; i += Most) fn(TileSize<Most>(), i);
  register_tile_of<Most - 1>(n - i, i, fn);
}

// Returns the largest of the scores [begin, end). Sets scores before `begin` in the same vector to minus infinity, so
// that their weight is 0.
inline float largest_score(float* scores, int begin, int end) {
  const int first_vector = begin / kLanes * kLanes;
  const int whole = end / kLanes * kLanes, rest = end % kLanes;
  if (begin > first_vector) {
    float* at = scores + first_vector;
    store(at, first(begin - first_vector, minus_infinity(), load(at)));
  }
  Vec best = minus_infinity(), other = best;
  int at = first_vector;
  for (; at + 4 * kLanes <= whole; at += 4 * kLanes) {
    best = max(load(scores + at), best);
    other = max(load(scores + at + kLanes), other);
    best = max(load(scores + at + 2 * kLanes), best);
    other = max(load(scores + at + 3 * kLanes), other);
  }
  best = max(best, other);
  for (; at < whole; at += kLanes) best = max(load(scores + at), best);
  if (rest > 0) best = max(first(rest, load(scores + whole), best), best);
  return max_of_lanes(best);
}

// Returns the same bits as exponential(), but only for x <= 0 and NaN.
template <int N>
inline void exponentials_to_one(const Vec (&x)[N], Vec (&out)[N]) {
  Exponent parts[N];
  exponents_of(x, parts);
  MONOLITH_UNROLL
  for (int i = 0; i < N; ++i) {
    const Vec e = add(parts[i].fraction, splat(1.0f));
    out[i] = zero_if_less(x[i], splat(-86.6f), times_power_of_two(e, parts[i].shifted));
  }
}
inline Vec exponential_to_one(Vec x) {
  const Vec xs[1] = {x};
  Vec out[1];
  exponentials_to_one(xs, out);
  return out[0];
}

// Converts the scores of positions [begin, end) to softmax weights in place. Returns the sum of the weights.
inline float softmax_weights(float* scores, int begin, int end, float largest) {
  const int whole = end / kLanes * kLanes, rest = end % kLanes;
  const Vec offset = splat(largest);
  Vec total = splat(0.0f);
  int at = begin / kLanes * kLanes;
  for (; at + kExponentials * kLanes <= whole; at += kExponentials * kLanes) {
    Vec x[kExponentials], weights[kExponentials];
    MONOLITH_UNROLL
    for (int i = 0; i < kExponentials; ++i) x[i] = sub(load(scores + at + i * kLanes), offset);
    exponentials_to_one(x, weights);
    MONOLITH_UNROLL
    for (int i = 0; i < kExponentials; ++i) {
      store(scores + at + i * kLanes, weights[i]);
      total = add(total, weights[i]);
    }
  }
  for (; at < whole; at += kLanes) {
    const Vec weight = exponential_to_one(sub(load(scores + at), offset));
    store(scores + at, weight);
    total = add(total, weight);
  }
  if (rest > 0) {
    const Vec weight = first(rest, exponential_to_one(sub(load(scores + whole), offset)), splat(0.0f));
    store(scores + whole, weight);
    total = add(total, weight);
  }
  return sum_of_lanes(total);
}

// Addresses of a span's pages, followed by those of the pages to prefetch after the span.
template <typename T>
using SpanPages = const T * [kAttentionSpan / kPageTokens + kPagesAhead];

// The part of a span to which a tile attends. The span starts at position `begin`. Query i attends to its positions
// [from(i), to(i)), and all queries together attend to its pages [first_page, end_page).
struct SpanView {
  const int* starts;
  const int* limits;
  int begin, first_page, end_page;

  SpanView(const AttentionTile& tile, int span)
      : starts(tile.starts), limits(tile.limits), begin(span * kAttentionSpan) {
    first_page = from(0) / kPageTokens;
    end_page = (to(tile.n_queries - 1) + kPageTokens - 1) / kPageTokens;
  }
  int within(int position) const {
    const int n = position - begin;
    return n < 0 ? 0 : n > kAttentionSpan ? kAttentionSpan : n;
  }
  int from(int i) const { return within(starts[i]); }
  int to(int i) const { return within(limits[i]); }
};

// Converts scores to softmax weights, stores each state's largest score and sum of weights, and sets its weighted sums
// of values to zero. Works in two passes: the maximum of every query is computed in the first pass, so the weights of a
// query do not have to wait for its maximum in the second.
inline void soften(const AttentionTile& tile, const SpanView& view, float* states) {
  const int64_t state_floats = attention_state_floats(tile.value_dim), padded_dim = round_up_to_lanes(tile.value_dim);
  const auto for_queries = [&](auto fn) {
    for (int i = 0; i < tile.n_queries; ++i)
      if (view.from(i) < view.to(i))
        fn(tile.scores + i * kScoreStride, view.from(i), view.to(i), states + i * state_floats);
  };
  if (tile.soft_cap > 0)
    for_queries([&](float* scores, int low, int high, float*) { soft_cap(scores + low, high - low, tile.soft_cap); });
  for (int i = 0; tile.slopes != nullptr && i < tile.n_queries; ++i) {
    float* const scores = tile.scores + i * kScoreStride;
    const float slope = tile.slopes[i];
    for (int at = view.from(i); at < view.to(i); ++at)
      scores[at] += slope * static_cast<float>(view.begin + at + 1 - tile.limits[i]);
  }
  for (int i = 0; tile.bias != nullptr && i < tile.n_queries; ++i) {
    float* const scores = tile.scores + i * kScoreStride;
    const float* const bias = tile.bias + view.begin - (tile.first_query + i);
    for (int at = view.from(i); at < view.to(i); ++at) scores[at] += bias[at];
  }
  for_queries([&](float* scores, int low, int high, float* state) {
    for (int64_t d = 0; d <= padded_dim; d += kLanes) store(state + d, splat(0.0f));
    state[padded_dim] = largest_score(scores, low, high);
  });
  for_queries([&](float* scores, int low, int high, float* state) {
    state[padded_dim + 1] = softmax_weights(scores, low, high, state[padded_dim]);
  });
}

template <typename T>
void attention_span_of(const AttentionTile& tile, int span, float* states) {
  const SpanView view(tile, span);
  const int begin = view.begin, first_page = view.first_page, n_pages = view.end_page;
  const int64_t state_floats = attention_state_floats(tile.value_dim);
  const int padded_dim = static_cast<int>(round_up_to_lanes(tile.value_dim));
  const auto from = [&](int i) { return view.from(i); };
  const auto to = [&](int i) { return view.to(i); };
  if (n_pages <= first_page) return;
  // Prefetching continues from the keys to the values, and from the values to the keys of the next span, if there is
  // one.
  const int n_sequence_pages = (tile.limits[tile.n_queries - 1] + kPageTokens - 1) / kPageTokens;
  SpanPages<T> keys, values;
  for (int p = first_page; p < n_pages + kPagesAhead; ++p) {
    const int index = begin / kPageTokens + p;
    const auto page = static_cast<size_t>(tile.pages[index < n_sequence_pages ? index : n_sequence_pages - 1]);
    const T* page_keys = reinterpret_cast<const T*>(tile.keys + page * tile.key_page_bytes);
    if (p < n_pages) {
      keys[p] = page_keys;
      values[p] = reinterpret_cast<const T*>(tile.values + page * tile.value_page_bytes);
    } else {
      const int follows = first_page + p - n_pages;
      keys[p] = values[follows < n_pages ? follows : n_pages - 1];
      values[p] = page_keys;
    }
  }

  // Packed pages are unpacked shortly before they are used. The kernels prefetch only unpacked pages. The values of
  // 4-bit pages that a single register tile uses are loaded directly.
  [[maybe_unused]] SpanPages<T> packed_keys, packed_values;
  [[maybe_unused]] const bool loads_packed = kLoadsPacked && tile.type == KvType::kQ4_0 &&
                                             tile.n_queries <= kRegisterQueries && tile.value_dim % kQ8Block == 0;
  [[maybe_unused]] UnpackedPages unpacked(tile);
  if constexpr (sizeof(T) == 1)
    if (tile.unpacked != nullptr)
      for (int p = first_page; p < n_pages + kPagesAhead; ++p) {
        packed_keys[p] = keys[p];
        packed_values[p] = values[p];
        keys[p] = unpacked.keys(p - first_page);
        values[p] = unpacked.values(p);
      }

  // A few pages are processed at a time, so that they stay in the L1 cache while all register tiles use them.
  if constexpr (sizeof(T) == sizeof(float))
    if (tile.rows != nullptr)
      for (int p = first_page; p < n_pages; ++p)
        score_latents(tile, values[p], values[p + 1], tile.scores + p * kPageTokens);
  for (int p = first_page; p < n_pages && tile.rows == nullptr; p += kPageRun) {
    const int run = n_pages - p < kPageRun ? n_pages - p : kPageRun;
    if constexpr (sizeof(T) == 1)
      for (int i = p; tile.unpacked != nullptr && i < p + run; ++i)
        unpacked.add_keys(i - first_page, packed_keys[i], packed_keys[i + kPagesAhead]);
    for_register_tiles<kScoreQueries<T>>(tile.n_queries, [&](auto size, int i) {
      score_run<size.value>(tile, i, keys + p, run, tile.scores + i * kScoreStride + p * kPageTokens);
    });
  }

  soften(tile, view, states);

  // Starts and limits are ascending, so all queries of a register tile attend to the positions from the start of its
  // last query to the limit of its first query. Positions before and after that range are processed separately for each
  // query.
  const auto common_high = [&](auto, int i) { return to(i); };
  const auto common_low = [&](auto size, int i) {
    const int low = from(i + size.value - 1), high = to(i);
    return low < high ? low : high;
  };
  const auto weigh = [&](auto size, int i, int low, int high) {
    if constexpr (sizeof(T) == 1 && kLoadsPacked)
      if (loads_packed)
        return weigh_bytes<size.value, true>(tile.scores + i * kScoreStride, packed_values, tile.value_stride, low,
                                             high, padded_dim, states + i * state_floats, state_floats);
    if constexpr (sizeof(T) == 1)
      for (int p = low / kPageTokens; tile.unpacked != nullptr && p * kPageTokens < high; ++p)
        unpacked.add_values(p, packed_values[p], packed_values[p + kPagesAhead]);
    weigh_run<size.value>(tile.scores + i * kScoreStride, values, tile.value_stride, low, high, padded_dim,
                          states + i * state_floats, state_floats);
  };
  const auto alone = [&](int i, int low, int high) {
    for (int next; low < high; low = next) {
      next = (low / kPageTokens + kPageRun) * kPageTokens;
      weigh(TileSize<1>(), i, low, next < high ? next : high);
    }
  };
  for_register_tiles<kRegisterQueries>(tile.n_queries, [&](auto size, int i) {
    const int low = common_low(size, i);
    for (int j = i; j < i + size.value; ++j) alone(j, from(j), low);
  });
  for (int p = first_page; p < n_pages; p += kPageRun) {
    const int run_low = p * kPageTokens, run_high = run_low + kPageRun * kPageTokens;
    for_register_tiles<kRegisterQueries>(tile.n_queries, [&](auto size, int i) {
      const int low = common_low(size, i), high = common_high(size, i);
      const int begins = low > run_low ? low : run_low, ends = high < run_high ? high : run_high;
      if (begins < ends) weigh(size, i, begins, ends);
    });
  }
  for_register_tiles<kRegisterQueries>(tile.n_queries, [&](auto size, int i) {
    const int high = common_high(size, i);
    for (int j = i + 1; j < i + size.value; ++j) alone(j, high > from(j) ? high : from(j), to(j));
  });
}

// Maximum number of merges whose factors are computed together.
constexpr int kMerges = 2 * kLanes;
static_assert(kMerges >= kTileQueries);

// Factors for merging two states. Each state is relative to its own largest score, and the result is relative to the
// larger of the two.
struct MergeFactors {
  float top[kMerges], state[kMerges], next[kMerges];
  void set(int i, float state_top, float next_top) {
    top[i] = state_top > next_top ? state_top : next_top;
    state[i] = state_top - top[i];
    next[i] = next_top - top[i];
  }
  // Must be called after set() for the first n merges.
  void finish(int n) {
    for (int i = n; i % kLanes != 0; ++i) state[i] = next[i] = 0.0f;
    for (int i = 0; i < n; i += kLanes) {
      store(state + i, exponential_to_one(load(state + i)));
      store(next + i, exponential_to_one(load(next + i)));
    }
  }
};

// Computes state = fma(next, factor of next, state * factor of state) for the weighted sums of values and for the sum
// of weights.
inline void merge_state(float* state, const float* next, int64_t padded_dim, const MergeFactors& factors, int i) {
  const Vec a = splat(factors.state[i]), b = splat(factors.next[i]);
  for (int64_t d = 0; d <= padded_dim; d += kLanes) store(state + d, fma(load(next + d), b, mul(load(state + d), a)));
  state[padded_dim] = factors.top[i];
}

void attention_merge_tile(const AttentionTile& tile, int span, float* states, const float* next) {
  const int64_t state_floats = attention_state_floats(tile.value_dim);
  const int64_t padded_dim = round_up_to_lanes(tile.value_dim);
  MergeFactors factors;
  for (int i = 0; i < tile.n_queries; ++i)
    factors.set(i, states[i * state_floats + padded_dim], next[i * state_floats + padded_dim]);
  factors.finish(tile.n_queries);
  for (int i = 0; i < tile.n_queries; ++i) {
    float* state = states + i * state_floats;
    const float* next_state = next + i * state_floats;
    if (tile.limits[i] <= span * kAttentionSpan || tile.starts[i] / kAttentionSpan > span) continue;
    if (tile.starts[i] / kAttentionSpan == span)
      __builtin_memcpy(state, next_state, static_cast<size_t>(state_floats) * sizeof(float));
    else
      merge_state(state, next_state, padded_dim, factors, i);
  }
}

void attention_merge(float* state, const float* next, int64_t stride, int count, int value_dim) {
  const int64_t padded_dim = round_up_to_lanes(value_dim);
  for (int done = 0; done < count; done += kMerges) {
    const int n = count - done < kMerges ? count - done : kMerges;
    MergeFactors factors;
    for (int i = 0; i < n; ++i)
      factors.set(i, i == 0 ? state[padded_dim] : factors.top[i - 1], next[i * stride + padded_dim]);
    factors.finish(n);
    for (int i = 0; i < n; ++i, next += stride) merge_state(state, next, padded_dim, factors, i);
  }
}

void attention_finish(const float* state, int value_dim, float* out) {
  const Vec scale = splat(1.0f / state[round_up_to_lanes(value_dim) + 1]);
  for_vectors(value_dim, [&](int64_t at, int n) { store_up_to(out + at, mul(load(state + at), scale), n); });
}
