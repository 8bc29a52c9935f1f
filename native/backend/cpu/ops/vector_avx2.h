// Vectors of 16 floats in two AVX2 registers, with the semantics defined in ops/vector_plain.h. Included once, by
// ops/kernels_avx2.cc, inside its unnamed namespace.

struct Vec {
  __m256 low, high;
};

// Of the 16 registers, six vectors of sums take 12. The remaining four hold two operands and a broadcast. Byte products
// need more registers for operands.
constexpr int kAccumulators = 6, kByteAccumulators = 4;
constexpr int kRegisterQueries = 6, kByteQueries = 4;
// Only register tiles with at least this many queries prefetch pages (ops/attention_q8-inl.h).
constexpr int kPrefetchQueries = 1;
// Number of exponentials that are computed together.
constexpr int kExponentials = 2;

inline Vec splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline Vec load(const uint16_t* halves) {
  const auto* from = reinterpret_cast<const __m128i*>(halves);
  return {_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}
inline void store(float* to, Vec a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline void store(uint16_t* halves, Vec a) {
  auto* to = reinterpret_cast<__m128i*>(halves);
  _mm_storeu_si128(to, _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(to + 1, _mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vec load_first(const float* from, int n) {
  alignas(32) float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i] = from[i];
  return load(lanes);
}
inline void store_first(float* to, Vec a, int n) {
  alignas(32) float lanes[kLanes];
  store(lanes, a);
  for (int i = 0; i < n; ++i) to[i] = lanes[i];
}

inline Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Vec first(int n, Vec a, Vec b) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), index));
  const __m256 high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), index));
  return {_mm256_blendv_ps(b.low, a.low, low), _mm256_blendv_ps(b.high, a.high, high)};
}
inline Vec if_less(Vec x, Vec y, Vec a, Vec b) {
  return {_mm256_blendv_ps(b.low, a.low, _mm256_cmp_ps(x.low, y.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(b.high, a.high, _mm256_cmp_ps(x.high, y.high, _CMP_LT_OQ))};
}
inline uint32_t equal_mask(Vec a, Vec b) {
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ));
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 8;
}
inline Vec swap_pairs(Vec a) { return {_mm256_permute_ps(a.low, 0xb1), _mm256_permute_ps(a.high, 0xb1)}; }
template <int Distance>
inline Vec swap_lanes(Vec a) {
  if constexpr (Distance == 2) return {_mm256_permute_ps(a.low, 0x4e), _mm256_permute_ps(a.high, 0x4e)};
  if constexpr (Distance == 4)
    return {_mm256_permute2f128_ps(a.low, a.low, 1), _mm256_permute2f128_ps(a.high, a.high, 1)};
  return {a.high, a.low};
}
inline __m256 half_power_of_two(__m256 x) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(x), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(126 << 23)));
}
inline Vec half_power_of_two(Vec x) { return {half_power_of_two(x.low), half_power_of_two(x.high)}; }

inline Vec times_power_of_two(Vec a, Vec x) { return mul(add(a, a), half_power_of_two(x)); }
inline Vec zero_if_less(Vec x, Vec y, Vec a) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.low, y.low, _CMP_LT_OQ), a.low),
          _mm256_andnot_ps(_mm256_cmp_ps(x.high, y.high, _CMP_LT_OQ), a.high)};
}

inline float sum_of_lanes(Vec a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float max_of_lanes(Vec a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline Vec load(const int8_t* from) {
  const auto* bytes = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 8))))};
}
inline void store(int8_t* to, Vec a) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}
struct Ints {
  __m256i low, high;
};
inline Ints splat_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Vec to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
// The even bytes (0 and 2) and the odd bytes (1 and 3) of each position. They are widened to 16-bit integers because,
// without VNNI, byte products would saturate.
struct Quads {
  __m256i low_even, low_odd, high_even, high_odd;
};
struct QueryQuad {
  __m256i even, odd;
};
inline Quads load_quads(const int8_t* from) {
  const auto* bytes = reinterpret_cast<const __m256i*>(from);
  const __m256i low = _mm256_loadu_si256(bytes), high = _mm256_loadu_si256(bytes + 1);
  const __m256i even = _mm256_set1_epi16(0xff);
  return {_mm256_and_si256(low, even), _mm256_srli_epi16(low, 8), _mm256_and_si256(high, even),
          _mm256_srli_epi16(high, 8)};
}
constexpr int kQueryWords = 2;
inline void pack_query_quad(const int8_t* numbers, uint32_t* words) {
  for (int i = 0; i < 2; ++i)
    words[i] = static_cast<uint32_t>(static_cast<uint16_t>(numbers[i])) |
               static_cast<uint32_t>(static_cast<uint16_t>(numbers[i + 2])) << 16;
}
inline QueryQuad splat_query(const uint32_t* words) {
  return {_mm256_set1_epi32(static_cast<int>(words[0])), _mm256_set1_epi32(static_cast<int>(words[1]))};
}
inline Ints dot(Ints sum, Quads keys, QueryQuad query) {
  const auto add_products = [&](__m256i total, __m256i even, __m256i odd) {
    total = _mm256_add_epi32(total, _mm256_madd_epi16(even, query.even));
    return _mm256_add_epi32(total, _mm256_madd_epi16(odd, query.odd));
  };
  return {add_products(sum.low, keys.low_even, keys.low_odd), add_products(sum.high, keys.high_even, keys.high_odd)};
}

inline void prefetch(const void* at) { _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T0); }
inline void prefetch_far(const void* at) { _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T1); }

// --- 4- and 5-bit integers ----------------------------------------------------------------------------

inline void unpack_quads(const uint8_t* from, const uint8_t* top, int pair, int8_t* to) {
  const __m256i low_bits = _mm256_set1_epi8(15), top_bit = _mm256_set1_epi8(16);
  MONOLITH_UNROLL
  for (int half = 0; half < 2; ++half) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + half);
    __m256i even = _mm256_and_si256(both, low_bits), odd = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_bits);
    if (top != nullptr) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(top) + half);
      const auto bits_of = [&](int quad) {
        return _mm256_and_si256(quad < 4 ? _mm256_srli_epi16(bits, quad) : _mm256_slli_epi16(bits, 8 - quad), top_bit);
      };
      even = _mm256_or_si256(even, bits_of(2 * pair));
      odd = _mm256_or_si256(odd, bits_of(2 * pair + 1));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + half, even);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + 2 + half, odd);
  }
}
inline void unpack_blocks(const uint8_t* from, const uint8_t* top, int8_t* to) {
  const __m256i low_bits = _mm256_set1_epi8(15);
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  MONOLITH_UNROLL
  for (int block = 0; block < 4; ++block) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + block);
    __m256i numbers = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), low_bits);
    if (top == nullptr) {
      numbers = _mm256_sub_epi8(numbers, _mm256_set1_epi8(8));
    } else {
      int32_t signs;
      __builtin_memcpy(&signs, top + 4 * block, 4);
      const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(signs), byte_of);
      const __m256i negative = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
      numbers = _mm256_or_si256(numbers, _mm256_andnot_si256(low_bits, negative));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + block, numbers);
  }
}

constexpr bool kLoadsPacked = false;

// --- 16-bit integers ----------------------------------------------------------------------------------

constexpr int kPairRows = 2, kPairQueries = 2, kWeighQueries = 2;

inline Vec load(const int16_t* from) {
  const auto* numbers = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(numbers))),
          _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(numbers + 1)))};
}
inline void store(int16_t* to, Vec a) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(words, 0xd8));
}
template <int Shift>
inline void widen(const int8_t* from, int16_t factor, int16_t* to) {
  for (int i = 0; i < 2; ++i) {
    const __m256i numbers = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + i,
                        _mm256_mulhrs_epi16(_mm256_slli_epi16(numbers, Shift), _mm256_set1_epi16(factor)));
  }
}
struct Pairs {
  __m256i low, high;
};
inline Pairs load_pairs(const int16_t* from) {
  const auto* numbers = reinterpret_cast<const __m256i*>(from);
  return {_mm256_loadu_si256(numbers), _mm256_loadu_si256(numbers + 1)};
}
inline void add_products(Ints& sums, const Pairs& a, const Pairs& b) {
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(a.low, b.low));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(a.high, b.high));
}
struct RowPairs {
  __m256i v[4];
};
struct WeightPair {
  __m256i v;
};
struct PairSums {
  __m256i v[4];
};
inline RowPairs zip_rows(const int16_t* first, const int16_t* second) {
  const Pairs a = load_pairs(first), b = load_pairs(second);
  return {{_mm256_unpacklo_epi16(a.low, b.low), _mm256_unpackhi_epi16(a.low, b.low),
           _mm256_unpacklo_epi16(a.high, b.high), _mm256_unpackhi_epi16(a.high, b.high)}};
}
inline WeightPair splat_weights(const int16_t* from) {
  int32_t both;
  __builtin_memcpy(&both, from, 4);
  return {_mm256_set1_epi32(both)};
}
inline void clear(PairSums& sums) {
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) sums.v[i] = _mm256_setzero_si256();
}
inline void add_weighted(PairSums& sums, const RowPairs& rows, WeightPair weights) {
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) sums.v[i] = _mm256_add_epi32(sums.v[i], _mm256_madd_epi16(rows.v[i], weights.v));
}
// zip_rows() puts elements 0-3 and 8-11 into one vector, and elements 4-7 and 12-15 into the other.
inline void to_floats(const PairSums& sums, Vec& low, Vec& high) {
  const auto part = [&](int i, int half) {
    return _mm256_cvtepi32_ps(half == 0 ? _mm256_permute2x128_si256(sums.v[i], sums.v[i + 1], 0x20)
                                        : _mm256_permute2x128_si256(sums.v[i], sums.v[i + 1], 0x31));
  };
  low = {part(0, 0), part(0, 1)};
  high = {part(2, 0), part(2, 1)};
}
