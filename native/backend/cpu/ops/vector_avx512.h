// Vectors of 16 floats in one AVX-512 register, with the semantics defined in ops/vector_plain.h. Included once, by
// ops/kernels_avx512.cc, inside its unnamed namespace.

struct Vec {
  __m512 v;
};

// Of the 32 registers, 24 hold sums. The remaining eight are enough for all operands of a tile.
constexpr int kAccumulators = 24, kByteAccumulators = 24;
constexpr int kRegisterQueries = 8, kByteQueries = 8;
// Only register tiles with at least this many queries prefetch pages (ops/attention_q8-inl.h).
constexpr int kPrefetchQueries = 1;
// Number of exponentials that are computed together.
constexpr int kExponentials = 4;

inline __mmask16 first_mask(int n) { return static_cast<__mmask16>((1u << n) - 1); }

inline Vec splat(float x) { return {_mm512_set1_ps(x)}; }
inline Vec load(const float* from) { return {_mm512_loadu_ps(from)}; }
inline Vec load(const uint16_t* halves) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)))};
}
inline void store(float* to, Vec a) { _mm512_storeu_ps(to, a.v); }
inline void store(uint16_t* halves, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Vec load_first(const float* from, int n) { return {_mm512_maskz_loadu_ps(first_mask(n), from)}; }
inline void store_first(float* to, Vec a, int n) { _mm512_mask_storeu_ps(to, first_mask(n), a.v); }

inline Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec first(int n, Vec a, Vec b) { return {_mm512_mask_blend_ps(first_mask(n), b.v, a.v)}; }
inline Vec if_less(Vec x, Vec y, Vec a, Vec b) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, y.v, _CMP_LT_OQ), b.v, a.v)};
}
inline uint32_t equal_mask(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
inline Vec swap_pairs(Vec a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
template <int Distance>
inline Vec swap_lanes(Vec a) {
  if constexpr (Distance == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  return {_mm512_shuffle_f32x4(a.v, a.v, Distance == 4 ? 0xb1 : 0x4e)};
}
inline Vec half_power_of_two(Vec x) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(x.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(126 << 23)))};
}

inline Vec times_power_of_two(Vec a, Vec x) {
  return {_mm512_scalef_ps(a.v, _mm512_sub_ps(x.v, _mm512_set1_ps(0x1.8p23f)))};
}
inline Vec zero_if_less(Vec x, Vec y, Vec a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, y.v, _CMP_NLT_UQ), a.v)};
}

inline float sum_of_lanes(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float max_of_lanes(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline Vec load(const int8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
inline void store(int8_t* to, Vec a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
struct Ints {
  __m512i v;
};
inline Ints splat_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline Vec to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
struct Quads {
  __m512i v;
};
struct QueryQuad {
  __m512i v;
};
inline Quads load_quads(const int8_t* from) { return {_mm512_loadu_si512(from)}; }
constexpr int kQueryWords = 1;
inline void pack_query_quad(const int8_t* numbers, uint32_t* words) { __builtin_memcpy(words, numbers, 4); }
inline QueryQuad splat_query(const uint32_t* words) { return {_mm512_set1_epi32(static_cast<int>(*words))}; }
inline Ints dot(Ints sum, Quads keys, QueryQuad query) { return {_mm512_dpbusd_epi32(sum.v, keys.v, query.v)}; }

inline void prefetch(const void* at) { _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T0); }
inline void prefetch_far(const void* at) { _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T1); }

// --- 4- and 5-bit integers ----------------------------------------------------------------------------

inline void unpack_quads(const uint8_t* from, const uint8_t* top, int pair, int8_t* to) {
  const __m512i both = _mm512_loadu_si512(from), low_bits = _mm512_set1_epi8(15), top_bit = _mm512_set1_epi8(16);
  __m512i even = _mm512_and_si512(both, low_bits), odd = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_bits);
  if (top != nullptr) {
    const __m512i bits = _mm512_loadu_si512(top);
    const auto with_bits_of = [&](__m512i numbers, int quad) __attribute__((always_inline)) {
      const __m512i own = quad < 4 ? _mm512_srli_epi16(bits, quad) : _mm512_slli_epi16(bits, 8 - quad);
      return _mm512_ternarylogic_epi32(numbers, own, top_bit, 0xf8);  // numbers | (own & top_bit)
    };
    even = with_bits_of(even, 2 * pair);
    odd = with_bits_of(odd, 2 * pair + 1);
  }
  _mm512_storeu_si512(to, even);
  _mm512_storeu_si512(to + 64, odd);
}
inline void unpack_blocks(const uint8_t* from, const uint8_t* top, int8_t* to) {
  const __m512i both = _mm512_loadu_si512(from), low_bits = _mm512_set1_epi8(15);
  const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  MONOLITH_UNROLL
  for (int half = 0; half < 2; ++half) {
    // Duplicates each group of 16 bytes: the first copy yields the low 4 bits, the second the high 4 bits.
    const __m512i order =
        half == 0 ? _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3) : _mm512_setr_epi64(4, 5, 4, 5, 6, 7, 6, 7);
    const __m512i spread = _mm512_srlv_epi64(_mm512_permutexvar_epi64(order, both), shifts);
    __m512i numbers = _mm512_and_si512(spread, low_bits);
    if (top == nullptr) {
      numbers = _mm512_sub_epi8(numbers, _mm512_set1_epi8(8));
    } else {
      uint64_t signs;
      __builtin_memcpy(&signs, top + 8 * half, 8);
      numbers = _mm512_mask_sub_epi8(numbers, signs, numbers, _mm512_set1_epi8(16));
    }
    _mm512_storeu_si512(to + 64 * half, numbers);
  }
}

constexpr bool kLoadsPacked = true;
inline void load_packed(const uint8_t* from, Vec& low, Vec& high) {
  const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  // The permutation uses only the lower 4 bits of each index.
  const __m512 numbers = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  low.v = _mm512_permutexvar_ps(both, numbers);
  high.v = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 4), numbers);
}

// --- 16-bit integers ----------------------------------------------------------------------------------

constexpr int kPairRows = 4, kPairQueries = 4, kWeighQueries = 8;

inline Vec load(const int16_t* from) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))))};
}
inline void store(int16_t* to, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(a.v)));
}
template <int Shift>
inline void widen(const int8_t* from, int16_t factor, int16_t* to) {
  const __m512i numbers = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  _mm512_storeu_si512(to, _mm512_mulhrs_epi16(_mm512_slli_epi16(numbers, Shift), _mm512_set1_epi16(factor)));
}
// Adds to each lane of `sums` the products of the lane's two pairs. Written in inline assembly because GCC 12 copies
// the sums when its intrinsic is used.
inline void add_dot(__m512i& sums, __m512i a, __m512i b) { asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b)); }
struct Pairs {
  __m512i v;
};
inline Pairs load_pairs(const int16_t* from) { return {_mm512_loadu_si512(from)}; }
inline void add_products(Ints& sums, const Pairs& a, const Pairs& b) { add_dot(sums.v, a.v, b.v); }
struct RowPairs {
  __m512i low, high;
};
struct WeightPair {
  __m512i v;
};
struct PairSums {
  __m512i low, high;
};
inline RowPairs zip_rows(const int16_t* first, const int16_t* second) {
  const __m512i a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(second);
  return {_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)};
}
inline WeightPair splat_weights(const int16_t* from) {
  int32_t both;
  __builtin_memcpy(&both, from, 4);
  return {_mm512_set1_epi32(both)};
}
inline void clear(PairSums& sums) { sums.low = sums.high = _mm512_setzero_si512(); }
inline void add_weighted(PairSums& sums, const RowPairs& rows, WeightPair weights) {
  add_dot(sums.low, rows.low, weights.v);
  add_dot(sums.high, rows.high, weights.v);
}
// zip_rows() puts the first four of every eight elements into one vector and the last four into the other.
inline void to_floats(const PairSums& sums, Vec& low, Vec& high) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  low.v = _mm512_cvtepi32_ps(_mm512_permutex2var_epi64(sums.low, first, sums.high));
  high.v = _mm512_cvtepi32_ps(_mm512_permutex2var_epi64(sums.low, second, sums.high));
}
// Computes sum_of_lanes() of each vector, in parallel.
inline void sums_of_lanes(const Vec (&x)[4], float* to) {
  const auto fold = [](__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  };
  const __m512 first = fold(x[0].v, x[1].v), second = fold(x[2].v, x[3].v);
  __m512 sum = _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xdd));
  sum = _mm512_add_ps(sum, _mm512_permute_ps(sum, 0x4e));
  sum = _mm512_add_ps(sum, _mm512_permute_ps(sum, 0xb1));
  _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(
                        _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12), sum)));
}
