// Attention over a span in 16-bit integers. With KvType::kF16, pages store latents, and the keys and values of wide
// heads, in this form. Latents with fewer bits are widened for each tile. Compiled once per instruction set, inside an
// unnamed namespace, after ops/attention-inl.h.
//
// Order of arithmetic for each query. Rows and queries have one scale, called the step, per block of kLatentBlock
// dimensions. Sums of integer products are exact, so their order does not matter.
//   score     per block and lane (dimensions 2i and 2i + 1 of every 32 are lane i) the exact sum of products, then
//             fma(sum, query's step * row's step, lane), blocks ascending; the 16 lanes folded as in sum_of_lanes().
//             Rows of a single block: the lanes' exact sums are folded first, then multiplied by the steps' product
//   softmax   as in ops/attention-inl.h
//   values    per block, and half of the span, the weights times the steps of their rows are rounded to integers with a
//             common step, the smallest that keeps their sum and each of them in bounds (kernels.h); per dimension the
//             exact sum of products of each half, then fma(sum, step, value), halves ascending
//   spans     merged as in ops/attention-inl.h
//
// Positions that a query does not attend to have weight zero. Stale pages are harmless: they contain ordinary integers,
// and their steps are not used.

// Converts up to kLatentBlock floats of a row or query to integers and returns their step. If any value is NaN or
// infinite, the step is NaN, which propagates to all results. Pads with zeros to whole vectors of 16-bit integers.
float pack_latents(const float* x, int count, int most, int16_t* to) {
  Vec largest = splat(0.0f), poison = largest;
  for_vectors(count, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    largest = max(absolute(v), largest);
    poison = fma(v, splat(0.0f), poison);
  });
  const float top = max_of_lanes(largest), bad = sum_of_lanes(poison), limit = static_cast<float>(most);
  const bool counts = bad == 0.0f && top > 0x1p-100f;  // Ensures that limit / top is finite.
  const Vec inverse = splat(counts ? limit / top : 0.0f);
  for (int at = 0; at < count; at += kLatentPad)
    for (int half = at; half < at + kLatentPad; half += kLanes) {
      const int n = count - half < kLanes ? count - half : kLanes;
      store(to + half, counts && n > 0 ? mul(load_up_to(x + half, n), inverse) : splat(0.0f));
    }
  return counts ? top / limit : bad;
}

// Widens a page of latents to 16 bits: 2^Shift times each number, times the ratio of its scale to the largest scale in
// the block, rounded. Shift makes the largest number 2^14. Only the scales of packed types can be negative. `steps` is
// [block][kPageTokens].
template <int Shift>
inline void widen_latents(const int8_t* page, int64_t stride, int16_t* rows, float* steps) {
  const auto* scales = reinterpret_cast<const uint16_t*>(page + stride * kPageTokens);
  for (int64_t first = 0; first < stride; first += kLatentBlock, steps += kPageTokens) {
    const int64_t end = first + kLatentBlock < stride ? first + kLatentBlock : stride;
    Vec top = splat(0.0f), poison = top;
    for (int64_t d = first; d < end; d += kQ8Block) {
      const Vec scale = load(scales + d / kQ8Block * kPageTokens);
      top = max(absolute(scale), top);
      poison = fma(scale, splat(0.0f), poison);
    }
    store(steps, fma(top, splat(32768.0f / (32767.0f * (1 << Shift))), poison));
    // If all numbers of the block are zero or one is NaN, the factors are zero.
    const Vec inverse = div(splat(32767.0f), top);
    for (int64_t d = first; d < end; d += kQ8Block) {
      int16_t factors[kPageTokens];
      const Vec scale = load(scales + d / kQ8Block * kPageTokens);
      const Vec some = if_less(splat(0.0f), top, mul(scale, inverse), splat(0.0f));
      store(factors, if_less(poison, splat(1.0f), some, splat(0.0f)));
      for (int64_t row = 0; row < kPageTokens; ++row)
        widen<Shift>(page + row * stride + d, factors[row], rows + row * stride + d);
    }
  }
}

// The span's values as 16-bit integers. Each page has its steps, an array of shape [block][kPageTokens].
constexpr int kSpanPages = kAttentionSpan / kPageTokens;
struct RowSpan {
  const int16_t* rows[kSpanPages];
  const float* steps[kSpanPages];
};

// Layout of a tile's scratch memory.
struct LatentScratch {
  int16_t* weights;    // Shape [kTileQueries][kLatentWeightStride].
  float* factors;      // Shape [kTileQueries][block][kPageTokens].
  float* steps;        // Shape [kSpanPages][block][kPageTokens], for 8-bit pages only.
  int16_t* rows;       // Shape [kSpanPages][kPageTokens][stride], for 8-bit pages only.
  std::byte* queries;  // For ops/attention_tiles-inl.h.
};
inline LatentScratch latent_scratch(const AttentionTile& tile) {
  float* const weights = tile.rows;
  float* const factors = weights + kTileQueries * kLatentWeightStride / 2;
  float* const steps = factors + int64_t{kTileQueries} * latent_blocks(tile.key_dim) * kPageTokens;
  float* const rows = steps + int64_t{kAttentionSpan} * latent_blocks(tile.key_dim);
  float* const queries = rows + kAttentionSpan * round_up_to_latents(tile.key_dim) / 2;
  return {reinterpret_cast<int16_t*>(weights), factors, steps, reinterpret_cast<int16_t*>(rows),
          reinterpret_cast<std::byte*>(queries)};
}

template <int N>
inline void sums_of_lanes(const Vec (&x)[N], float* to) {
  MONOLITH_UNROLL
  for (int i = 0; i < N; ++i) to[i] = sum_of_lanes(x[i]);
}

// Computes the scores of `Queries` queries, starting with query i, against kPairRows rows of a page. If rows have a
// single block, the steps are not applied yet.
template <int Queries, bool OneBlock>
[[gnu::noinline]] void score_rows(const AttentionTile& tile, int i, const int16_t* rows, const float* factors,
                                  float* scores) {
  const int64_t stride = tile.key_stride, factor_stride = int64_t{latent_blocks(tile.key_dim)} * kPageTokens;
  const int16_t* const q = reinterpret_cast<const int16_t*>(tile.q) + i * stride;
  Vec lanes[Queries][kPairRows];
  MONOLITH_UNROLL
  for (int j = 0; j < Queries; ++j) {
    MONOLITH_UNROLL
    for (int r = 0; r < kPairRows; ++r) lanes[j][r] = splat(0.0f);
  }
  factors += i * factor_stride;
  for (int64_t first = 0; first < stride; first += kLatentBlock, factors += kPageTokens) {
    const int64_t end = first + kLatentBlock < stride ? first + kLatentBlock : stride;
    Ints sums[Queries][kPairRows];
    MONOLITH_UNROLL
    for (int j = 0; j < Queries; ++j) {
      MONOLITH_UNROLL
      for (int r = 0; r < kPairRows; ++r) sums[j][r] = splat_int(0);
    }
    for (int64_t d = first; d < end; d += kLatentPad) {
      Pairs query[Queries];
      MONOLITH_UNROLL
      for (int j = 0; j < Queries; ++j) query[j] = load_pairs(q + j * stride + d);
      MONOLITH_UNROLL
      for (int r = 0; r < kPairRows; ++r) {
        const Pairs row = load_pairs(rows + r * stride + d);
        MONOLITH_UNROLL
        for (int j = 0; j < Queries; ++j) add_products(sums[j][r], row, query[j]);
      }
    }
    MONOLITH_UNROLL
    for (int j = 0; j < Queries; ++j) {
      MONOLITH_UNROLL
      for (int r = 0; r < kPairRows; ++r)
        lanes[j][r] = OneBlock ? to_floats(sums[j][r])
                               : fma(to_floats(sums[j][r]), splat(factors[j * factor_stride + r]), lanes[j][r]);
    }
  }
  MONOLITH_UNROLL
  for (int j = 0; j < Queries; ++j) sums_of_lanes(lanes[j], scores + j * kScoreStride);
}

// Divides the `lines` cache lines starting at `from` into `of` equal parts and prefetches the part at index `part`.
// Does nothing if `from` is null. GCC assumes that a function which only prefetches has no side effects, and removes
// calls to it; the empty assembly statement prevents that.
template <typename Prefetch>
inline void fetch_part(const void* from, int64_t lines, int64_t part, int64_t of, Prefetch fetch) {
  asm volatile("" : : "r"(from));
  if constexpr (kPrefetchQueries > 0)
    if (from != nullptr)
      for (int64_t line = part * lines / of, end = (part + 1) * lines / of; line < end; ++line)
        fetch(static_cast<const std::byte*>(from) + line * 64);
}

// Memory to prefetch, and its size in cache lines; null = nothing to prefetch.
struct Ahead {
  const void* from = nullptr;
  int64_t lines = 0;
};

// Computes the scores of all queries against one page. `next` is the memory that is read after this page, `later` the
// memory that is read after all of the span's keys. Processes a few rows at a time for all queries while prefetching
// the next rows, because the rows of a page and all queries together do not fit in the L1 cache.
[[gnu::noinline]] void score_integers(const AttentionTile& tile, const int16_t* rows, const float* steps,
                                      float* factors, float* scores, Ahead next, Ahead later) {
  const int n_blocks = latent_blocks(tile.key_dim);
  const auto* const numbers = reinterpret_cast<const int16_t*>(tile.q);
  const auto* const query_steps = reinterpret_cast<const float*>(numbers + kTileQueries * tile.key_stride);
  const auto factor = [&](int i, int b) {
    return mul(splat(query_steps[i * n_blocks + b]), load(steps + b * kPageTokens));
  };
  const bool one_block = n_blocks == 1;
  for (int i = 0; i < tile.n_queries && !one_block; ++i)
    for (int b = 0; b < n_blocks; ++b) store(factors + (i * n_blocks + b) * kPageTokens, factor(i, b));
  const int64_t tiles = (tile.n_queries + kPairQueries - 1) / kPairQueries, stride = tile.key_stride;
  constexpr int64_t kPasses = kPageTokens / kPairRows;
  for (int r = 0; r < kPageTokens; r += kPairRows) {
    const bool last = r + kPairRows == kPageTokens;
    const Ahead follows = last ? next : Ahead{rows + (r + kPairRows) * stride, kPairRows * stride / kLatentPad};
    for_register_tiles<kPairQueries>(tile.n_queries, [&](auto size, int i) {
      fetch_part(follows.from, follows.lines, i / kPairQueries, tiles, prefetch);
      fetch_part(later.from, later.lines, r / kPairRows * tiles + i / kPairQueries, kPasses * tiles, prefetch_far);
      float* const to = scores + i * kScoreStride + r;
      if (one_block)
        score_rows<size.value, true>(tile, i, rows + r * stride, factors + r, to);
      else
        score_rows<size.value, false>(tile, i, rows + r * stride, factors + r, to);
    });
  }
  for (int i = 0; i < tile.n_queries && one_block; ++i)
    store(scores + i * kScoreStride, mul(load(scores + i * kScoreStride), factor(i, 0)));
}

// Replaces the elements whose positions are outside [low, high) with 0.
inline Vec only_positions(Vec x, int low, int high) {
  if (high < kPageTokens) x = first(high, x, splat(0.0f));
  return low > 0 ? first(low, splat(0.0f), x) : x;
}
// Returns 1 / step for the conversion of weights to integers, given the sum of the weights and the largest weight.
// Returns 0 if all weights become 0.
inline float inverse_weight_step(float sum, float top) {
  const float by_sum = static_cast<float>(kLatentWeights) / sum, by_top = static_cast<float>(kMaxLatentWeight) / top;
  return sum > 0x1p-100f && sum < __builtin_inff() ? by_sum < by_top ? by_sum : by_top : 0.0f;
}
inline float weight_step(float sum, float inverse) {
  return inverse > 0.0f ? 1.0f / inverse : sum < 1.0f ? 0.0f : sum - sum;
}

// Converts the weights of positions [low, high), times the steps of their rows in one block, to integers and returns
// the step of the result. The other positions in pages [first_page, end_page) become zero.
inline float pack_weights(const float* weights, const float* const* steps, int block, int low, int high, int first_page,
                          int end_page, int16_t* to) {
  float products[kAttentionSpan];
  Vec total = splat(0.0f), largest = total;
  const int begin = low / kPageTokens, end = (high + kPageTokens - 1) / kPageTokens;
  for (int p = begin; p < end; ++p) {
    const Vec product = only_positions(mul(load(weights + p * kPageTokens), load(steps[p] + block * kPageTokens)),
                                       low - p * kPageTokens, high - p * kPageTokens);
    store(products + p * kPageTokens, product);
    total = add(total, product);
    largest = max(product, largest);
  }
  const float sum = sum_of_lanes(total), inverse = inverse_weight_step(sum, max_of_lanes(largest));
  for (int p = first_page; p < end_page; ++p)
    store(to + p * kPageTokens, inverse > 0.0f && p >= begin && p < end
                                    ? mul(load(products + p * kPageTokens), splat(inverse))
                                    : splat(0.0f));
  return weight_step(sum, inverse);
}

// The pages of the next span's keys, which are prefetched while this span's values are summed.
struct KeysAhead {
  const std::byte* pages[kSpanPages];  // Null if there is no page.
  int64_t lines = 0;
};

// Adds the weighted sums of 32 dimensions, starting at d, to the states of `Queries` queries. Also divides each page in
// `ahead` into `of` parts and prefetches part `some` of each.
template <int Queries>
[[gnu::noinline]] void weigh_rows(const RowSpan& span, int first_page, int end_page, int64_t stride, int64_t d,
                                  const int16_t* weights, const float* steps, float* states, int64_t state_floats,
                                  bool whole, const KeysAhead& ahead, int64_t some, int64_t of) {
  PairSums sums[Queries];
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) clear(sums[i]);
  for (int p = first_page; p < end_page; ++p) {
    fetch_part(ahead.pages[p], ahead.lines, some, of, prefetch_far);
    const int16_t* row = span.rows[p] + d;
    const int16_t* weight = weights + p * kPageTokens;
    for (int r = 0; r < kPageTokens; r += 2, row += 2 * stride, weight += 2) {
      const RowPairs rows = zip_rows(row, row + stride);
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) add_weighted(sums[i], rows, splat_weights(weight + i * kLatentWeightStride));
    }
  }
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    Vec low, high;
    to_floats(sums[i], low, high);
    float* const state = states + i * state_floats + d;
    store(state, fma(low, splat(steps[i]), load(state)));
    if (whole) store(state + kLanes, fma(high, splat(steps[i]), load(state + kLanes)));
  }
}

// The stages of rows_span_of() with vector instructions. TileRows in ops/attention_tiles-inl.h has the same functions.
class VectorRows {
 public:
  static constexpr int kRowsAhead = kPairRows;  // Rows of the next page that score() prefetches.

  explicit VectorRows(const AttentionTile& tile) : tile_(tile), scratch_(latent_scratch(tile)) {}

  // Computes the scores of page p of the span. Called for the pages in ascending order; the second argument is true for
  // the last page.
  void score(int, bool, const int16_t* rows, const float* steps, float* scores, Ahead next, Ahead later) {
    score_integers(tile_, rows, steps, scratch_.factors, scores, next, later);
  }
  // Packs the weights of pages [first_page, end_page) for one block of dimensions. part(position) clamps a position to
  // these pages.
  template <typename Part>
  void pack(const SpanView& view, const RowSpan& values, int block, int first_page, int end_page, Part part) {
    for (int i = 0; i < tile_.n_queries; ++i)
      steps_[i] = pack_weights(tile_.scores + i * kScoreStride, values.steps, block, part(view.from(i)),
                               part(view.to(i)), first_page, end_page, scratch_.weights + i * kLatentWeightStride);
  }
  // Adds the weighted sums of 32 dimensions, starting at d, over pages [first_page, end_page) to the states.
  void weigh(const RowSpan& values, int first_page, int end_page, int64_t d, float* states, const KeysAhead& ahead) {
    const int64_t padded_dim = round_up_to_lanes(tile_.value_dim);
    const int64_t state_floats = attention_state_floats(tile_.value_dim);
    const int64_t tiles = (tile_.n_queries + kWeighQueries - 1) / kWeighQueries;
    const int64_t parts = (padded_dim + kLatentPad - 1) / kLatentPad * tiles;
    const bool whole = d + kLanes < padded_dim;
    for_register_tiles<kWeighQueries>(tile_.n_queries, [&](auto size, int i) {
      weigh_rows<size.value>(values, first_page, end_page, tile_.value_stride, d,
                             scratch_.weights + i * kLatentWeightStride, steps_ + i, states + i * state_floats,
                             state_floats, whole, ahead, d / kLatentPad * tiles + i / kWeighQueries, parts);
    });
  }

 private:
  const AttentionTile& tile_;
  const LatentScratch scratch_;
  float steps_[kTileQueries];
};

// T is the type of the numbers in the pages.
template <typename T, class Rows>
void rows_span_of(const AttentionTile& tile, int span, float* states) {
  constexpr bool kWidens = sizeof(T) == 1;  // Only for latents, where the keys are also the values.
  const SpanView view(tile, span);
  const int first_page = view.first_page, end_page = view.end_page;
  if (end_page <= first_page) return;
  const int64_t key_stride = tile.key_stride, stride = tile.value_stride;
  const int n_blocks = latent_blocks(tile.key_dim);
  const LatentScratch scratch = latent_scratch(tile);
  const auto page_of = [&](const std::byte* pages, size_t page_bytes, int p) {
    return pages + static_cast<size_t>(tile.pages[view.begin / kPageTokens + p]) * page_bytes;
  };
  const auto keys_at = [&](int p) { return page_of(tile.keys, tile.key_page_bytes, p); };
  const auto values_at = [&](int p) { return page_of(tile.values, tile.value_page_bytes, p); };
  const auto lines = [&](int64_t dim) { return latents_page_bytes(dim, tile.type) / 64; };
  const bool apart = tile.keys != tile.values;

  KeysAhead ahead;
  ahead.lines = lines(tile.key_dim);
  RowSpan values;
  Rows kernels(tile);
  for (int p = first_page; p < end_page; ++p) {
    const auto* page = reinterpret_cast<const T*>(keys_at(p));
    const int16_t* rows;
    const float* steps;
    if constexpr (kWidens) {
      int16_t* const wide = scratch.rows + p * kPageTokens * key_stride;
      float* const wide_steps = scratch.steps + p * n_blocks * kPageTokens;
      auto widen_page = widen_latents<7>;
      if (tile.unpacked != nullptr) {
        auto* const unpacked = reinterpret_cast<int8_t*>(tile.unpacked);
        const auto* const own = reinterpret_cast<const uint8_t*>(page);
        unpack_rows(tile.type, key_stride, own, own, unpacked);
        page = unpacked;
        widen_page = tile.type == KvType::kQ4_0 ? widen_latents<11> : widen_latents<10>;
      }
      widen_page(page, key_stride, wide, wide_steps);
      rows = wide;
      steps = wide_steps;
    } else {
      rows = page;
      steps = reinterpret_cast<const float*>(page + key_stride * kPageTokens);
    }
    values.rows[p] = rows;
    values.steps[p] = steps;
    Ahead next, later;
    if (p + 1 < end_page) next = {keys_at(p + 1), kWidens ? ahead.lines : Rows::kRowsAhead * key_stride / kLatentPad};
    if (apart) {
      const auto* own = reinterpret_cast<const int16_t*>(values_at(p));
      values.rows[p] = own;
      values.steps[p] = reinterpret_cast<const float*>(own + stride * kPageTokens);
      later = {own, lines(tile.value_dim)};
    }
    kernels.score(p, p + 1 == end_page, rows, steps, tile.scores + p * kPageTokens, next, later);
  }
  soften(tile, view, states);

  const int n_sequence_pages =
      (tile.limits[tile.n_queries - 1] + kPageTokens - 1) / kPageTokens - view.begin / kPageTokens;
  for (int p = 0; p < kSpanPages; ++p)
    ahead.pages[p] = p + kSpanPages < n_sequence_pages ? keys_at(p + kSpanPages) : nullptr;
  const int64_t padded_dim = round_up_to_lanes(tile.value_dim);
  constexpr int kTogether = kWeighedTogether / kPageTokens;
  for (int begin = first_page; begin < end_page; begin = (begin / kTogether + 1) * kTogether) {
    const int next = (begin / kTogether + 1) * kTogether, end = next < end_page ? next : end_page;
    const auto part = [&](int position) {
      const int low = begin * kPageTokens, high = end * kPageTokens;
      return position < low ? low : position < high ? position : high;
    };
    for (int64_t d = 0; d < padded_dim; d += kLatentPad) {
      if (d % kLatentBlock == 0) kernels.pack(view, values, static_cast<int>(d / kLatentBlock), begin, end, part);
      kernels.weigh(values, begin, end, d, states, ahead);
    }
  }
}

void attention_span(const AttentionTile& tile, int span, float* states) {
  if (tile.key_stride > 0 && (tile.type == KvType::kQ8_0 || is_packed(tile.type)))
    return rows_span_of<int8_t, VectorRows>(tile, span, states);
  if (tile.key_stride > 0) return rows_span_of<int16_t, VectorRows>(tile, span, states);
  switch (tile.type) {
    case KvType::kF16: return attention_span_of<uint16_t>(tile, span, states);
    case KvType::kQ8_0:
    case KvType::kQ4_0:
    case KvType::kQ5_0: return attention_span_of<int8_t>(tile, span, states);
    case KvType::kF32: return attention_span_of<float>(tile, span, states);
    case KvType::kFp8: return;  // Rejected by CpuBackend::supports().
  }
}
