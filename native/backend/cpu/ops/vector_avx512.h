// Sixteen floats in one AVX-512 register; meaning as in ops/vector_plain.h. Included once, by
// ops/kernels_avx512.cc, inside its unnamed namespace.

struct Vec {
  __m512 v;
};

// 32 registers: 24 sums leave room for every operand of a tile.
constexpr int kAccumulators = 24, kByteAccumulators = 24;
constexpr int kRegisterQueries = 8, kByteQueries = 8;
// Register tiles of so many queries and more fetch ahead (ops/attention_q8-inl.h).
constexpr int kPrefetchQueries = 1;
// Exponentials computed side by side.
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
inline Vec load_first(const float* from, int n) {
  return {_mm512_maskz_loadu_ps(first_mask(n), from)};
}
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
inline void pack_query_quad(const int8_t* numbers, uint32_t* words) {
  __builtin_memcpy(words, numbers, 4);
}
inline QueryQuad splat_query(const uint32_t* words) {
  return {_mm512_set1_epi32(static_cast<int>(*words))};
}
inline Ints dot(Ints sum, Quads keys, QueryQuad query) {
  return {_mm512_dpbusd_epi32(sum.v, keys.v, query.v)};
}

inline void prefetch(const void* at) { _mm_prefetch(static_cast<const char*>(at), _MM_HINT_T0); }
