// Attention over 16-bit integers (ops/attention_integers-inl.h) with AMX tiles. Templates over the tile unit: AmxUnit,
// or a model of it in tests. Include inside an unnamed namespace, after ops/attention_integers-inl.h, and only in files
// that are compiled for AVX-512 with VNNI.
//
// The tile unit multiplies bytes, so a 16-bit integer is split into 256 * high + low, where `high` is signed and `low`
// is unsigned. The product of two integers is the sum of four products of bytes:
//   65536 * high * high + 256 * (high * low + low * high) + low * low
// The tile unit computes three exact 32-bit sums: of the first product, of the second and third, and of the fourth.
//   values    The three sums are combined modulo 2^32. The result is exact because it is below 2^31 (kernels.h). All
//             bits are therefore the same as with vector instructions.
//   scores    for Arithmetic::kFast only. The result may exceed 2^31, so the sums are combined in floats, once per
//             block of dimensions: fma(256 * first + second, 256, third). Vector instructions instead convert 16
//             partial sums to floats before adding them, so the bits differ.

constexpr int kTileStep = 64;     // Positions, or dimensions, per tile instruction.
constexpr int kTileBytes = 1024;  // 16 rows of 64 bytes.
constexpr int kTileGroups = kTileQueries / kLanes;
constexpr int kStepPages = kTileStep / kPageTokens;
static_assert(kWeighedTogether % kTileStep == 0 && kLatentBlock % kTileStep == 0);

// The high bytes and the low bytes of 16 rows of 64 integers.
struct alignas(64) SplitTile {
  std::byte high[kTileBytes], low[kTileBytes];
};

// Splits 64 integers. The instructions work within 128-bit lanes, so byte i of the result is not integer i: each lane
// has eight bytes of `first` and then eight bytes of `second`. The order of the elements does not matter for a dot
// product, as long as it is the same for both factors.
inline void split(__m512i first, __m512i second, SplitTile& to, int row) {
  const __m512i low_bytes = _mm512_set1_epi16(0xff);
  _mm512_store_si512(to.high + row * 64,
                     _mm512_packus_epi16(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8)));
  _mm512_store_si512(to.low + row * 64,
                     _mm512_packus_epi16(_mm512_and_si512(first, low_bytes), _mm512_and_si512(second, low_bytes)));
}
// The row of a tile that contains positions 4 * quad .. 4 * quad + 3 of 64, in the order of pack().
constexpr int row_of_quad(int quad) { return quad % 4 * 4 + quad / 4; }

// Expands 32 dimensions of a page's values as the second operand: [row_of_quad()][dimension][4 positions]. `first` gets
// the first four of every eight dimensions, and `second` the last four, as in zip_rows(). `quad`: the page's first quad
// of positions.
inline void expand_values(const int16_t* row, int64_t stride, int quad, SplitTile& first, SplitTile& second) {
  const __m512i low_bytes = _mm512_set1_epi16(0xff);
  const auto lows = [&](__m512i a, __m512i b) __attribute__((always_inline)) {
    return _mm512_ternarylogic_epi32(low_bytes, a, _mm512_slli_epi16(b, 8), 0xca);  // low_bytes ? a : b
  };
  const auto highs = [&](__m512i a, __m512i b) __attribute__((always_inline)) {
    return _mm512_ternarylogic_epi32(low_bytes, _mm512_srli_epi16(a, 8), b, 0xca);
  };
  MONOLITH_UNROLL
  for (int q = 0; q < kPageTokens / 4; ++q, row += 4 * stride) {
    const __m512i a = _mm512_loadu_si512(row), b = _mm512_loadu_si512(row + stride);
    const __m512i c = _mm512_loadu_si512(row + 2 * stride), d = _mm512_loadu_si512(row + 3 * stride);
    const int at = row_of_quad(quad + q) * 64;
    _mm512_store_si512(first.high + at, _mm512_unpacklo_epi16(highs(a, b), highs(c, d)));
    _mm512_store_si512(second.high + at, _mm512_unpackhi_epi16(highs(a, b), highs(c, d)));
    _mm512_store_si512(first.low + at, _mm512_unpacklo_epi16(lows(a, b), lows(c, d)));
    _mm512_store_si512(second.low + at, _mm512_unpackhi_epi16(lows(a, b), lows(c, d)));
  }
}

// Loads the 128-bit lane `lane` of four rows that are `stride` bytes apart.
inline __m512i load_quarters(const std::byte* from, int lane, size_t stride) {
  const auto quarter = [&](int row) __attribute__((always_inline)) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(from + static_cast<size_t>(row) * stride) + lane);
  };
  const __m512i a = _mm512_inserti32x4(_mm512_castsi128_si512(quarter(0)), quarter(1), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(a, quarter(2), 2), quarter(3), 3);
}
// Transposes 16 rows of 16 32-bit elements. Row i of the result is stored at to + i * stride.
inline void transpose(const std::byte* from, std::byte* to, size_t stride) {
  MONOLITH_UNROLL
  for (int lane = 0; lane < 4; ++lane) {
    __m512i rows[4];
    MONOLITH_UNROLL
    for (int i = 0; i < 4; ++i) rows[i] = load_quarters(from + 64 * i, lane, 4 * 64);
    const __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]), b = _mm512_unpacklo_epi32(rows[2], rows[3]);
    const __m512i c = _mm512_unpackhi_epi32(rows[0], rows[1]), d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    const auto put = [&](int i, __m512i row) __attribute__((always_inline)) {
      _mm512_storeu_si512(to + static_cast<size_t>(4 * lane + i) * stride, row);
    };
    put(0, _mm512_unpacklo_epi64(a, b));
    put(1, _mm512_unpackhi_epi64(a, b));
    put(2, _mm512_unpacklo_epi64(c, d));
    put(3, _mm512_unpackhi_epi64(c, d));
  }
}

// The sums of products of high bytes, of high and low bytes, and of low bytes, for 16 rows and 16 lanes.
struct alignas(64) ByteSums {
  int32_t high[16 * kLanes], middle[16 * kLanes], low[16 * kLanes];
};
// 256 * high + middle of a row.
inline __m512i upper_sums(const ByteSums& sums, int row) {
  const __m512i high = _mm512_load_si512(sums.high + row * kLanes);
  return _mm512_add_epi32(_mm512_slli_epi32(high, 8), _mm512_load_si512(sums.middle + row * kLanes));
}
inline __m512i low_sums(const ByteSums& sums, int row) { return _mm512_load_si512(sums.low + row * kLanes); }
inline __m512i whole_sums(const ByteSums& sums, int row) {
  return _mm512_add_epi32(_mm512_slli_epi32(upper_sums(sums, row), 8), low_sums(sums, row));
}

// If the core's other hardware thread is busy, loading a tile takes almost as long as a tile multiplication. One factor
// of up to two tiles is therefore kept in the tile registers while several others are multiplied by it.
constexpr int kKeptTiles = 2;
// Loads `count` tiles.
template <class Unit>
[[gnu::always_inline]] inline void keep(const SplitTile* tiles, int count) {
  asm volatile("" : : : "memory");  // All operands have just been stored.
  Unit::template load<3>(tiles[0].high, 64);
  Unit::template load<4>(tiles[0].low, 64);
  if (count == 1) return;
  Unit::template load<5>(tiles[1].high, 64);
  Unit::template load<6>(tiles[1].low, 64);
}
// Adds the products of one kept tile and `other`. kRows: the kept tile holds the rows of the sums rather than the
// lanes. kSigned: the high bytes of the rows are signed; the high bytes of the lanes always are.
template <class Unit, bool kRows, bool kSigned, int kHigh, int kLow>
[[gnu::always_inline]] inline void add_split(const SplitTile& other) {
  Unit::template load<7>(other.high, 64);
  if constexpr (kRows) {
    Unit::template dot<0, kHigh, 7, kSigned, true>();
    Unit::template dot<1, kLow, 7, false, true>();
    Unit::template load<7>(other.low, 64);
    Unit::template dot<1, kHigh, 7, kSigned, false>();
    Unit::template dot<2, kLow, 7, false, false>();
  } else {
    Unit::template dot<0, 7, kHigh, kSigned, true>();
    Unit::template dot<1, 7, kLow, kSigned, false>();
    Unit::template load<7>(other.low, 64);
    Unit::template dot<1, 7, kHigh, false, true>();
    Unit::template dot<2, 7, kLow, false, false>();
  }
}
template <class Unit>
[[gnu::always_inline]] inline void clear_sums() {
  Unit::template zero<0>();
  Unit::template zero<1>();
  Unit::template zero<2>();
}
template <class Unit>
[[gnu::always_inline]] inline void store_sums(ByteSums& to) {
  Unit::template store<0>(to.high, 64);
  Unit::template store<1>(to.middle, 64);
  Unit::template store<2>(to.low, 64);
}
// Multiplies each of `count` kept tiles by one tile of `others` and stores the total.
template <class Unit, bool kRows, bool kSigned>
[[gnu::always_inline]] inline void multiply_kept(const SplitTile* others, int count, ByteSums& to) {
  clear_sums<Unit>();
  add_split<Unit, kRows, kSigned, 3, 4>(others[0]);
  if (count > 1) add_split<Unit, kRows, kSigned, 5, 6>(others[1]);
  store_sums<Unit>(to);
}

// fetch_lines() prefetches part `part` of `ahead`, which is divided into parts of `each` cache lines (see
// lines_per_part()).
constexpr int64_t lines_per_part(int64_t lines, int64_t parts) { return (lines + parts - 1) / parts; }
template <typename Prefetch>
[[gnu::always_inline]] inline void fetch_lines(const Ahead& ahead, int64_t part, int64_t each, Prefetch fetch) {
  if (ahead.from == nullptr) return;
  const int64_t end = (part + 1) * each < ahead.lines ? (part + 1) * each : ahead.lines;
  for (int64_t line = part * each; line < end; ++line) fetch(static_cast<const std::byte*>(ahead.from) + line * 64);
}

// Provides the same functions as VectorRows, but computes them with tiles. kScores: whether scores are computed with
// tiles, too.
template <class Unit, bool kScores>
class TileRows {
 public:
  static constexpr int kRowsAhead = kScores ? kPageTokens : VectorRows::kRowsAhead;

  explicit TileRows(const AttentionTile& tile)
      : tile_(tile), scratch_(latent_scratch(tile)), vectors_(tile), groups_(tile.n_queries > kLanes ? 2 : 1) {
    if constexpr (kScores) split_queries();
    Unit::configure_pairs(16, 16);
  }
  TileRows(const TileRows&) = delete;
  TileRows& operator=(const TileRows&) = delete;
  ~TileRows() { Unit::release(); }

  void score(int p, bool last, const int16_t* rows, const float* steps, float* scores, Ahead next, Ahead later) {
    if constexpr (!kScores)
      vectors_.score(p, last, rows, steps, scores, next, later);
    else if (tile_.key_stride <= kKeptTiles * kTileStep)
      score_run(p, last, rows, steps, scores, next, later);
    else
      score_page(rows, steps, scores, next, later);
  }

  // Packs the weights like VectorRows::pack(), but split into bytes. Pages that only fill up a tile get weight zero, so
  // their values do not matter.
  template <typename Part>
  void pack(const SpanView& view, const RowSpan& values, int block, int first_page, int end_page, Part part) {
    constexpr int kQueries = 4;  // Processed together, so that their sums are computed in parallel.
    const int begin_page = first_page / kStepPages * kStepPages;
    alignas(64) float products[kQueries][kWeighedTogether];
    for (int first = 0; first < tile_.n_queries; first += kQueries) {
      const int n = tile_.n_queries - first < kQueries ? tile_.n_queries - first : kQueries;
      Vec totals[kQueries], tops[kQueries];
      for (int i = 0; i < kQueries; ++i) {
        totals[i] = tops[i] = splat(0.0f);
        if (i >= n) continue;
        Vec total = splat(0.0f), top = total;
        const float* const weights = tile_.scores + (first + i) * kScoreStride;
        const int low = part(view.from(first + i)), high = part(view.to(first + i));
        const int begin = low / kPageTokens, end = (high + kPageTokens - 1) / kPageTokens;
        float* const to = products[i] - begin_page * kPageTokens;
        for (int p = begin_page; p < begin; ++p) store(to + p * kPageTokens, splat(0.0f));
        for (int p = begin; p < end; ++p) {
          Vec product = mul(load(weights + p * kPageTokens), load(values.steps[p] + block * kPageTokens));
          if (p == begin || p + 1 == end)
            product = only_positions(product, low - p * kPageTokens, high - p * kPageTokens);
          store(to + p * kPageTokens, product);
          total = add(total, product);
          top = max(product, top);
        }
        const int last = begin > end ? begin : end;
        for (int p = last; p < begin_page + kWeighedTogether / kPageTokens; ++p)
          store(to + p * kPageTokens, splat(0.0f));
        totals[i] = total;
        tops[i] = top;
      }
      float sums[kQueries];
      sums_of_lanes(totals, sums);
      for (int i = 0; i < n; ++i) {
        const float inverse = inverse_weight_step(sums[i], max_of_lanes(tops[i]));
        weight_steps_[first + i] = weight_step(sums[i], inverse);
        const float* from = products[i];
        // If a weight is NaN or infinite, `inverse` is zero and the step is NaN.
        const auto weights = [&](int page) __attribute__((always_inline)) {
          return _mm512_cvtps_epi32(mul(load(from + page * kPageTokens), splat(inverse)).v);
        };
        for (int page = begin_page; page < end_page; page += kStepPages, from += kTileStep) {
          // Each 128-bit lane then has four positions of each page: see row_of_quad().
          split(_mm512_packus_epi32(weights(0), weights(1)), _mm512_packus_epi32(weights(2), weights(3)),
                weights_[(first + i) / kLanes][step_of(page)], (first + i) % kLanes);
        }
      }
    }
  }

  void weigh(const RowSpan& values, int first_page, int end_page, int64_t d, float* states, const KeysAhead& ahead) {
    const int64_t padded_dim = round_up_to_lanes(tile_.value_dim);
    const int64_t lines_each = lines_per_part(ahead.lines, (padded_dim + kLatentPad - 1) / kLatentPad);
    for (int p = first_page; p < end_page; ++p) {
      fetch_lines({ahead.pages[p], ahead.lines}, d / kLatentPad, lines_each, prefetch_far);
      expand_values(values.rows[p] + d, tile_.value_stride, p % kStepPages * (kPageTokens / 4), values_[0][step_of(p)],
                    values_[1][step_of(p)]);
    }
    const bool whole = d + kLanes < padded_dim;
    const int step = step_of(first_page), n_steps = step_of(end_page - 1) + 1 - step;
    for (int group = 0; group < groups_; ++group) {
      keep<Unit>(weights_[group] + step, n_steps);
      for (int half = 0; half < 2; ++half) multiply_kept<Unit, true, false>(values_[half] + step, n_steps, sums_[half]);
      const int first = group * kLanes, left = tile_.n_queries - first;
      for (int i = 0; i < (left < kLanes ? left : kLanes); ++i) {
        Vec low, high;
        to_floats(PairSums{whole_sums(sums_[0], i), whole_sums(sums_[1], i)}, low, high);
        const Vec weight_step = splat(weight_steps_[first + i]);
        float* const state = states + (first + i) * attention_state_floats(tile_.value_dim) + d;
        store(state, fma(low, weight_step, load(state)));
        if (whole) store(state + kLanes, fma(high, weight_step, load(state + kLanes)));
      }
    }
  }

 private:
  static constexpr int kBlockSteps = kLatentBlock / kTileStep;
  static constexpr int kRunPages = 4;
  static_assert(kRunPages * kKeptTiles >= kBlockSteps);
  // Returns the index of the tile with a page's values, among the tiles of kWeighedTogether positions.
  static int step_of(int page) { return page % (kWeighedTogether / kPageTokens) / kStepPages; }

  // The queries of a group in the layout of a second operand, one tile per kTileStep dimensions.
  SplitTile* queries(int group) const {
    return reinterpret_cast<SplitTile*>(scratch_.queries) + group * ((tile_.key_stride + kTileStep - 1) / kTileStep);
  }
  // Their steps, [block][kTileQueries].
  float* query_steps() const { return scratch_.factors; }

  void split_queries() {
    const int64_t stride = tile_.key_stride;
    const auto* const numbers = reinterpret_cast<const int16_t*>(tile_.q);
    for (int group = 0; group < groups_; ++group)
      for (int64_t d = 0; d < stride; d += kTileStep) {
        SplitTile rows;
        for (int i = 0; i < kLanes; ++i) {
          const int16_t* const from = numbers + (group * kLanes + i) * stride + d;
          const bool whole = d + kLatentPad < stride;
          split(_mm512_loadu_si512(from), whole ? _mm512_loadu_si512(from + kLatentPad) : _mm512_setzero_si512(), rows,
                i);
        }
        SplitTile& to = queries(group)[d / kTileStep];
        transpose(rows.high, to.high, 64);
        transpose(rows.low, to.low, 64);
      }
    const int n_blocks = latent_blocks(tile_.key_dim);
    const auto* const steps = reinterpret_cast<const float*>(numbers + kTileQueries * stride);
    for (int b = 0; b < n_blocks; ++b)
      for (int i = 0; i < kTileQueries; ++i)
        query_steps()[b * kTileQueries + i] = i < tile_.n_queries ? steps[i * n_blocks + b] : 0.0f;
  }

  // Splits the keys of a page into bytes, for the dimensions of `count` tiles starting with tile `first`.
  void split_keys(const int16_t* rows, int64_t first, int count, SplitTile* to, Ahead next, Ahead later) {
    const int64_t stride = tile_.key_stride, n_steps = (stride + kTileStep - 1) / kTileStep;
    const int64_t next_each = lines_per_part(next.lines, n_steps), later_each = lines_per_part(later.lines, n_steps);
    for (int step = 0; step < count; ++step) {
      fetch_lines(next, first + step, next_each, prefetch);
      fetch_lines(later, first + step, later_each, prefetch_far);
      // The second half of the last tile may be beyond the end of the row. The queries are zero there.
      const int16_t* from = rows + (first + step) * kTileStep;
      for (int row = 0; row < kPageTokens; ++row, from += stride)
        split(_mm512_loadu_si512(from), _mm512_loadu_si512(from + kLatentPad), to[step], row);
    }
  }
  // Adds the sums of a block of dimensions to the scores of a group and a page.
  void add_scores(int group, int64_t block, const float* steps) {
    const Vec query_step = load(query_steps() + block * kTileQueries + group * kLanes);
    for (int row = 0; row < kPageTokens; ++row) {
      const Vec sum =
          fma(to_floats(Ints{upper_sums(sums_[0], row)}), splat(256.0f), to_floats(Ints{low_sums(sums_[0], row)}));
      const Vec factor = mul(query_step, splat(steps[block * kPageTokens + row]));
      float* const score = scores_[group] + row * kLanes;
      store(score, block == 0 ? mul(sum, factor) : fma(sum, factor, load(score)));
    }
  }
  void store_scores(int group, float* scores) {
    transpose(reinterpret_cast<const std::byte*>(scores_[group]),
              reinterpret_cast<std::byte*>(scores + group * kLanes * kScoreStride), kScoreStride * sizeof(float));
  }

  // For rows of one or two tiles: the queries of a group stay in the tile registers while a run of pages is multiplied
  // by them.
  void score_run(int p, bool last, const int16_t* rows, const float* steps, float* scores, Ahead next, Ahead later) {
    const int n_steps = static_cast<int>((tile_.key_stride + kTileStep - 1) / kTileStep);
    const int in_run = p % kRunPages;
    split_keys(rows, 0, n_steps, keys_ + in_run * n_steps, next, later);
    run_steps_[in_run] = steps;
    n_run_ += 1;
    if (!last && in_run + 1 < kRunPages) return;
    for (int group = 0; group < groups_; ++group) {
      keep<Unit>(queries(group), n_steps);
      for (int i = in_run + 1 - n_run_; i <= in_run; ++i) {
        multiply_kept<Unit, false, true>(keys_ + i * n_steps, n_steps, sums_[0]);
        add_scores(group, 0, run_steps_[i]);
        store_scores(group, scores + (i - in_run) * kPageTokens);
      }
    }
    n_run_ = 0;
  }

  void score_page(const int16_t* rows, const float* steps, float* scores, Ahead next, Ahead later) {
    const int64_t n_steps = (tile_.key_stride + kTileStep - 1) / kTileStep, n_blocks = latent_blocks(tile_.key_dim);
    for (int64_t block = 0; block < n_blocks; ++block) {
      const int64_t first = block * kBlockSteps;
      const int count = static_cast<int>(n_steps - first < kBlockSteps ? n_steps - first : kBlockSteps);
      split_keys(rows, first, count, keys_, next, later);
      for (int group = 0; group < groups_; ++group) {
        asm volatile("" : : : "memory");  // The keys have just been stored.
        clear_sums<Unit>();
        for (int step = 0; step < count; ++step) {
          const SplitTile& query = queries(group)[first + step];
          Unit::template load<3>(query.high, 64);
          Unit::template load<4>(query.low, 64);
          add_split<Unit, false, true, 3, 4>(keys_[step]);
        }
        store_sums<Unit>(sums_[0]);
        add_scores(group, block, steps);
      }
    }
    for (int group = 0; group < groups_; ++group) store_scores(group, scores);
  }

  const AttentionTile& tile_;
  const LatentScratch scratch_;
  VectorRows vectors_;
  const int groups_;
  SplitTile weights_[kTileGroups][kWeighedTogether / kTileStep];  // Rows: queries.
  SplitTile values_[2][kWeighedTogether / kTileStep];             // 32 dimensions.
  SplitTile keys_[kRunPages * kKeptTiles];                        // Rows: positions of a page.
  const float* run_steps_[kRunPages];
  float weight_steps_[kTileQueries];
  int n_run_ = 0;  // Pages in keys_.
  ByteSums sums_[2];
  alignas(64) float scores_[kTileGroups][kPageTokens * kLanes];  // Shape [position][query].
};

// Minimum number of queries for which tiles are faster than vector instructions (measured on Emerald Rapids). If scores
// are not computed with tiles, only full tiles are faster.
template <bool kScores>
constexpr int kMinTileQueries = kScores ? 12 : kTileQueries;

// If the tile's rows are not integers or the tile has too few queries, does nothing and returns false.
template <class Unit, bool kScores>
bool attention_span_in_tiles(const AttentionTile& tile, int span, float* states) {
  if (tile.key_stride == 0 || tile.n_queries < kMinTileQueries<kScores>) return false;
  if (tile.type == KvType::kQ8_0 || is_packed(tile.type))
    rows_span_of<int8_t, TileRows<Unit, kScores>>(tile, span, states);
  else
    rows_span_of<int16_t, TileRows<Unit, kScores>>(tile, span, states);
  return true;
}
