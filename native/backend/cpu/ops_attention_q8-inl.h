// Attention over 8-bit keys and values (KvType::kQ8_0), and how they and the queries become 8 bits.
// Layout of the pages: CpuKvCache in ops.h. Compiled once per instruction set, inside an unnamed
// namespace, after ops_rows-inl.h and before ops_attention-inl.h.
//
// Order of arithmetic, for each query and head alone:
//   score    per block of kQ8Block dimensions the exact integer product of the query's and the key's
//            numbers, then fma(product, key scale * query scale, score), blocks ascending
//   values   the weight times the value's scale, then one chain of fused multiply-adds over the
//            positions, ascending, per dimension
// Keys are stored plus 128, as the unsigned side of the byte products wants them; a query carries
// -128 times its block's sum, with which the product starts.

// Large register tiles fetch pages ahead while they compute: with each row of a page the same row of
// a later one, hidden behind the arithmetic. Scores look past their own pages, values kPagesAhead
// further. Decode over 4096 positions: 32 heads on 8 KV heads of 128, two Zen 5 cores, f16 471 -> 300
// us, 8 bits 415 -> 200 us; 32 heads on 4 of 64, f16, one Zen 4 core, 590 -> 440 us. Tried and
// dropped: whole pages fetched at once (680 us); fetching in tiles of one or two queries, which wait
// for memory anyway; twice as far.
constexpr int kPagesAhead = 2;
constexpr int kMostPagesAhead = 4;   // of a tile's pages
template <int Queries>
constexpr bool kFetchesAhead = kPrefetchQueries > 0 && Queries >= kPrefetchQueries;
template <int Pages>
constexpr int kScoresAhead = Pages > kPagesAhead ? Pages : kPagesAhead;

// Asks for the lines of `Numbers` numbers from `row` on.
template <int Numbers, typename T>
inline void prefetch_row(const T* row) {
  constexpr int kPerLine = 64 / static_cast<int>(sizeof(T));
  MONOLITH_UNROLL
  for (int i = 0; i < Numbers; i += kPerLine)
    prefetch(row + i);
}

inline Vec absolute(Vec x) { return max(x, sub(splat(0.0f), x)); }

// To integers -127 .. 127, ties to even. NaN gives -127: its block's scale is NaN.
inline void store_clamped(int8_t* to, Vec x) {
  x = if_less(splat(127.0f), x, splat(127.0f), x);
  store(to, max(x, splat(-127.0f)));
}

// Up to kQ8Block values; what lies beyond n counts as zero.
struct Q8Values {
  Vec low, high;
};
inline Q8Values load_q8_values(const float* x, int n) {
  return {load_up_to(x, n < kLanes ? n : kLanes),
          n > kLanes ? load_up_to(x + kLanes, n - kLanes) : splat(0.0f)};
}
inline float largest_of(const Q8Values& x) {
  return max_of_lanes(max(absolute(x.low), absolute(x.high)));
}
// 0, or NaN if a value is NaN or infinite: added to a scale, so that it spreads as in floats.
inline float poison_of(const Q8Values& x) {
  const Vec zero = splat(0.0f);
  return sum_of_lanes(fma(x.low, zero, mul(x.high, zero)));
}

void quantize_q8(const float* x, int n, int8_t* out, uint16_t* scale) {
  const Q8Values values = load_q8_values(x, n);
  const float wanted = largest_of(values) / 127.0f;
  const float in_range = wanted > 65504.0f ? 65504.0f : wanted;   // binary16's largest
  uint16_t halves[kLanes];
  float stored[kLanes];
  store(halves, splat(in_range + poison_of(values)));
  store(stored, load(halves));
  // Divided by the scale as it will be read, so that its rounding costs nothing.
  const Vec inverse = splat(stored[0] > 0.0f ? 1.0f / stored[0] : 0.0f);
  store_clamped(out, mul(values.low, inverse));
  store_clamped(out + kLanes, mul(values.high, inverse));
  *scale = halves[0];
}

// Queries as scores read them, in groups of kQueryBlock: [quad][query][kQueryWords], then scales
// [block][query] and offsets [block][query].
struct Q8Query {
  uint32_t* words;
  float* scales;
  int32_t* offsets;
};
inline Q8Query q8_query(const float* packed, int head_dim, int i) {
  const int64_t n_quads = q8_quads(head_dim), n_blocks = q8_blocks(head_dim);
  const int64_t group_words = kQueryBlock * (n_quads * kQueryWords + 2 * n_blocks);
  auto* words =
      reinterpret_cast<uint32_t*>(const_cast<float*>(packed)) + i / kQueryBlock * group_words;
  uint32_t* scales = words + kQueryBlock * n_quads * kQueryWords;
  const int within = i % kQueryBlock;
  return {words + within * kQueryWords, reinterpret_cast<float*>(scales) + within,
          reinterpret_cast<int32_t*>(scales + kQueryBlock * n_blocks) + within};
}

void pack_query_q8(const float* x, int head_dim, float scale, int i, float* packed) {
  const Q8Query query = q8_query(packed, head_dim, i);
  for (int block = 0; block < q8_blocks(head_dim); ++block) {
    const int first = block * kQ8Block, left = head_dim - first;
    const int n = left < kQ8Block ? left : kQ8Block;
    int8_t numbers[kQ8Block] = {};
    float block_scale = 0.0f;
    if (x != nullptr) {
      const Q8Values values = load_q8_values(x + first, n);
      const float largest = largest_of(values);
      if (largest > 0x1p-100f) {   // 127 / largest stays a number
        const Vec inverse = splat(127.0f / largest);
        store_clamped(numbers, mul(values.low, inverse));
        store_clamped(numbers + kLanes, mul(values.high, inverse));
        block_scale = largest / 127.0f;
      }
      block_scale = (block_scale + poison_of(values)) * scale;
    }
    int32_t sum = 0;
    for (int d = 0; d < kQ8Block; ++d)
      sum += numbers[d];
    for (int d = 0; d < n; d += 4)
      pack_query_quad(numbers + d, query.words + (first + d) / 4 * kQueryBlock * kQueryWords);
    query.scales[block * kQueryBlock] = block_scale;
    query.offsets[block * kQueryBlock] = -128 * sum;
  }
}

template <int Queries, int Pages>
inline void score_pages(const float* packed, int first, int head_dim, const int8_t* const* pages,
                        float* scores) {
  constexpr int kBlocks = (Queries + kQueryBlock - 1) / kQueryBlock;
  constexpr int kPerBlock = Queries < kQueryBlock ? Queries : kQueryBlock;
  const int n_quads = q8_quads(head_dim), n_blocks = q8_blocks(head_dim);
  Q8Query queries[kBlocks];
  for (int b = 0; b < kBlocks; ++b)
    queries[b] = q8_query(packed, head_dim, first + b * kQueryBlock);
  for (int block = 0; block < n_blocks; ++block) {
    Ints sums[Pages][Queries];
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i) {
      const Ints offset =
          splat_int(queries[i / kQueryBlock].offsets[block * kQueryBlock + i % kQueryBlock]);
      MONOLITH_UNROLL
      for (int p = 0; p < Pages; ++p)
        sums[p][i] = offset;
    }
    const int begin = block * (kQ8Block / 4), left = n_quads - begin;
    const int end = begin + (left < kQ8Block / 4 ? left : kQ8Block / 4);
    for (int64_t quad = begin; quad < end; ++quad) {
      Quads keys[Pages];
      MONOLITH_UNROLL
      for (int p = 0; p < Pages; ++p) {
        keys[p] = load_quads(pages[p] + quad * 4 * kPageTokens);
        if constexpr (kFetchesAhead<Queries>)
          prefetch(pages[p + kScoresAhead<Pages>] + quad * 4 * kPageTokens);
      }
      MONOLITH_UNROLL
      for (int b = 0; b < kBlocks; ++b) {
        MONOLITH_UNROLL
        for (int i = 0; i < kPerBlock; ++i) {
          const QueryQuad query =
              splat_query(queries[b].words + (quad * kQueryBlock + i) * kQueryWords);
          MONOLITH_UNROLL
          for (int p = 0; p < Pages; ++p)
            sums[p][b * kQueryBlock + i] = dot(sums[p][b * kQueryBlock + i], keys[p], query);
        }
      }
    }
    MONOLITH_UNROLL
    for (int p = 0; p < Pages; ++p) {
      const auto* scales = reinterpret_cast<const uint16_t*>(pages[p] + n_quads * 4 * kPageTokens);
      const Vec key_scale = load(scales + block * kPageTokens);
      MONOLITH_UNROLL
      for (int i = 0; i < Queries; ++i) {
        const Vec query_scale =
            splat(queries[i / kQueryBlock].scales[block * kQueryBlock + i % kQueryBlock]);
        float* score = scores + i * kScoreStride + p * kPageTokens;
        const Vec before = block == 0 ? splat(0.0f) : load(score);
        store(score, fma(to_floats(sums[p][i]), mul(key_scale, query_scale), before));
      }
    }
  }
}

// Adds `count` positions of one page to Blocks blocks of dimensions of Queries states. `weights`
// [Blocks][Queries][kLanes] contain the scales.
template <int Queries, int Blocks, int Vectors>
inline void weigh_q8_values(const float* weights, const int8_t* values, const int8_t* ahead,
                            int64_t value_stride, int count, float* states, int64_t state_floats) {
  constexpr int kPerBlock = Vectors / Blocks;
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
      MONOLITH_UNROLL
      for (int b = 0; b < Blocks; ++b) {
        const Vec weight = splat(weights[(b * Queries + i) * kLanes + position]);
        MONOLITH_UNROLL
        for (int v = b * kPerBlock; v < (b + 1) * kPerBlock; ++v)
          sums[i][v] = fma(weight, value[v], sums[i][v]);
      }
    }
  }
  MONOLITH_UNROLL
  for (int i = 0; i < Queries; ++i) {
    MONOLITH_UNROLL
    for (int v = 0; v < Vectors; ++v)
      store(states + i * state_floats + v * kLanes, sums[i][v]);
  }
}

// Positions [low, high) of one page; the scales lie behind its values.
template <int Queries>
inline void weigh_page(const float* weights, const int8_t* page, const int8_t* ahead,
                       int64_t value_stride, int low, int high, int padded_dim, float* states,
                       int64_t state_floats) {
  constexpr int kVectors = kAccumulators / Queries;
  const auto* scales = reinterpret_cast<const uint16_t*>(page + value_stride * kPageTokens);
  const int8_t* values = page + low * value_stride;
  const int8_t* next = ahead + low * value_stride;
  float scaled[2 * Queries * kLanes];
  const auto scale = [&](int block, float* to) {
    const Vec factor = load(scales + block * kPageTokens);
    MONOLITH_UNROLL
    for (int i = 0; i < Queries; ++i)
      store(to + i * kLanes, mul(load(weights + i * kScoreStride), factor));
  };
  int d = 0;
  if constexpr (kVectors >= 4)
    for (; d + 2 * kQ8Block <= padded_dim; d += 2 * kQ8Block) {
      scale(d / kQ8Block, scaled);
      scale(d / kQ8Block + 1, scaled + Queries * kLanes);
      weigh_q8_values<Queries, 2, 4>(scaled + low, values + d, next + d, value_stride, high - low,
                                     states + d, state_floats);
    }
  for (; d < padded_dim; d += kQ8Block) {
    scale(d / kQ8Block, scaled);
    if constexpr (kVectors >= 2)
      if (d + kQ8Block <= padded_dim) {
        weigh_q8_values<Queries, 1, 2>(scaled + low, values + d, next + d, value_stride, high - low,
                                       states + d, state_floats);
        continue;
      }
    for (int v = d; v < padded_dim && v < d + kQ8Block; v += kLanes)
      weigh_q8_values<Queries, 1, 1>(scaled + low, values + v, next + v, value_stride, high - low,
                                     states + v, state_floats);
  }
}
