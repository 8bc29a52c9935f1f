// Vectors of 16 floats in four NEON registers, with the semantics defined in ops/vector_plain.h. Included once, by
// ops/kernels_neon.cc, inside its unnamed namespace.

struct Vec {
  float32x4_t v[4];
};

// Of the 32 registers, six vectors of sums take 24. The remaining eight hold an operand and a broadcast.
constexpr int kAccumulators = 6, kByteAccumulators = 4;
constexpr int kRegisterQueries = 6, kByteQueries = 4;
// Only register tiles with at least this many queries prefetch pages (ops/attention_q8-inl.h). 0 = no prefetching. The
// effect of prefetching has not been measured on AArch64.
constexpr int kPrefetchQueries = 0;
// Number of exponentials that are computed together.
constexpr int kExponentials = 2;

// Returns a vector of the four registers fn(0) .. fn(3).
template <typename Fn>
inline Vec quarters(Fn fn) {
  return {{fn(0), fn(1), fn(2), fn(3)}};
}

inline Vec splat(float x) {
  return quarters([&](int) { return vdupq_n_f32(x); });
}
inline Vec load(const float* from) {
  return quarters([&](int i) { return vld1q_f32(from + 4 * i); });
}
inline Vec load(const uint16_t* halves) {
  return quarters([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves + 4 * i))); });
}
inline void store(float* to, Vec a) {
  vst1q_f32(to, a.v[0]);
  vst1q_f32(to + 4, a.v[1]);
  vst1q_f32(to + 8, a.v[2]);
  vst1q_f32(to + 12, a.v[3]);
}
inline uint16x4_t halves_of(float32x4_t a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }
inline void store(uint16_t* halves, Vec a) {
  vst1_u16(halves, halves_of(a.v[0]));
  vst1_u16(halves + 4, halves_of(a.v[1]));
  vst1_u16(halves + 8, halves_of(a.v[2]));
  vst1_u16(halves + 12, halves_of(a.v[3]));
}
inline Vec load_first(const float* from, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i] = from[i];
  return load(lanes);
}
inline void store_first(float* to, Vec a, int n) {
  float lanes[kLanes];
  store(lanes, a);
  for (int i = 0; i < n; ++i) to[i] = lanes[i];
}

inline Vec add(Vec a, Vec b) {
  return quarters([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline Vec sub(Vec a, Vec b) {
  return quarters([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline Vec mul(Vec a, Vec b) {
  return quarters([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline Vec div(Vec a, Vec b) {
  return quarters([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return quarters([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
// vmaxq cannot be used because it returns NaN if either operand is NaN.
inline float32x4_t larger(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Vec max(Vec a, Vec b) {
  return quarters([&](int i) { return larger(a.v[i], b.v[i]); });
}
inline int32x4_t index_of_quarter(int i) {
  const int32_t numbers[4] = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
  return vld1q_s32(numbers);
}
inline Vec first(int n, Vec a, Vec b) {
  return quarters([&](int i) { return vbslq_f32(vcgtq_s32(vdupq_n_s32(n), index_of_quarter(i)), a.v[i], b.v[i]); });
}
inline Vec if_less(Vec x, Vec y, Vec a, Vec b) {
  return quarters([&](int i) { return vbslq_f32(vcltq_f32(x.v[i], y.v[i]), a.v[i], b.v[i]); });
}
inline uint32_t equal_mask(Vec a, Vec b) {
  const uint32_t weights[4] = {1, 2, 4, 8};
  const uint32x4_t bits = vld1q_u32(weights);
  uint32_t mask = 0;
  for (int i = 0; i < 4; ++i) mask |= vaddvq_u32(vandq_u32(vceqq_f32(a.v[i], b.v[i]), bits)) << (4 * i);
  return mask;
}
inline Vec swap_pairs(Vec a) {
  return quarters([&](int i) { return vrev64q_f32(a.v[i]); });
}
template <int Distance>
inline Vec swap_lanes(Vec a) {
  return quarters([&](int i) { return Distance == 2 ? vextq_f32(a.v[i], a.v[i], 2) : a.v[i ^ Distance / 4]; });
}
inline Vec half_power_of_two(Vec x) {
  return quarters([&](int i) {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(x.v[i]), 23);
    return vreinterpretq_f32_u32(vaddq_u32(exponent, vdupq_n_u32(126u << 23)));
  });
}

inline Vec times_power_of_two(Vec a, Vec x) { return mul(add(a, a), half_power_of_two(x)); }
inline Vec zero_if_less(Vec x, Vec y, Vec a) { return if_less(x, y, splat(0.0f), a); }

inline float sum_of_lanes(Vec a) {
  const float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float max_of_lanes(Vec a) {
  const float32x4_t four = larger(larger(a.v[0], a.v[2]), larger(a.v[1], a.v[3]));
  const float32x2_t low = vget_low_f32(four), high = vget_high_f32(four);
  const float32x2_t two = vbsl_f32(vcgt_f32(low, high), low, high);
  const float x = vget_lane_f32(two, 0), y = vget_lane_f32(two, 1);
  return x > y ? x : y;
}
inline void prefetch(const void* at) { __builtin_prefetch(at); }

// --- 8-bit integers -----------------------------------------------------------------------------------

inline Vec load(const int8_t* from) {
  const int8x16_t bytes = vld1q_s8(from);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
inline void store(int8_t* to, Vec a) {
  const auto narrow = [&](int i) {
    return vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a.v[i])), vmovn_s32(vcvtnq_s32_f32(a.v[i + 1])));
  };
  vst1q_s8(to, vcombine_s8(vmovn_s16(narrow(0)), vmovn_s16(narrow(2))));
}
struct Ints {
  int32x4_t v[4];
};
inline Ints splat_int(int32_t x) { return {{vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}}; }
inline Vec to_floats(Ints a) {
  return quarters([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}
// Both operands of the dot product are signed bytes, so 128 is subtracted from the keys here, and 128 times the sum of
// the query is added to the result.
struct Quads {
  int8x16_t v[4];
};
struct QueryQuad {
  int8x16_t bytes;
  int32x4_t rest;
};
inline Quads load_quads(const int8_t* from) {
  Quads out;
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = veorq_s8(vld1q_s8(from + 16 * i), vdupq_n_s8(-128));
  return out;
}
constexpr int kQueryWords = 1;
inline void pack_query_quad(const int8_t* numbers, uint32_t* words) {
  *words = 0;
  for (int i = 0; i < 4; ++i) *words |= static_cast<uint32_t>(static_cast<uint8_t>(numbers[i])) << (8 * i);
}
inline QueryQuad splat_query(const uint32_t* words) {
  const int8x16_t bytes = vreinterpretq_s8_u32(vdupq_n_u32(*words));
  return {bytes, vshlq_n_s32(vdotq_s32(vdupq_n_s32(0), bytes, vdupq_n_s8(1)), 7)};
}
inline Ints dot(Ints sum, Quads keys, QueryQuad query) {
  Ints out;
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) out.v[i] = vdotq_s32(vaddq_s32(sum.v[i], query.rest), keys.v[i], query.bytes);
  return out;
}
inline void prefetch_far(const void* at) { __builtin_prefetch(at, 0, 2); }

// --- 4- and 5-bit integers ----------------------------------------------------------------------------

inline void unpack_quads(const uint8_t* from, const uint8_t* top, int pair, int8_t* to) {
  const uint8x16_t top_bit = vdupq_n_u8(16);
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t both = vld1q_u8(from + 16 * i);
    uint8x16_t even = vandq_u8(both, vdupq_n_u8(15)), odd = vshrq_n_u8(both, 4);
    if (top != nullptr) {
      const uint8x16_t bits = vld1q_u8(top + 16 * i);
      const auto bits_of = [&](int quad) {
        return vandq_u8(vshlq_u8(bits, vdupq_n_s8(static_cast<int8_t>(quad < 4 ? -quad : 8 - quad))), top_bit);
      };
      even = vorrq_u8(even, bits_of(2 * pair));
      odd = vorrq_u8(odd, bits_of(2 * pair + 1));
    }
    vst1q_s8(to + 16 * i, vreinterpretq_s8_u8(even));
    vst1q_s8(to + 64 + 16 * i, vreinterpretq_s8_u8(odd));
  }
}
inline void unpack_blocks(const uint8_t* from, const uint8_t* top, int8_t* to) {
  const uint8_t bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t byte_of = vld1q_u8(bytes), bit_of = vld1q_u8(bits);
  MONOLITH_UNROLL
  for (int block = 0; block < 4; ++block) {
    const uint8x16_t both = vld1q_u8(from + 16 * block);
    MONOLITH_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint8x16_t numbers = half == 0 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
      int8x16_t out = vreinterpretq_s8_u8(numbers);
      if (top == nullptr) {
        out = vsubq_s8(out, vdupq_n_s8(8));
      } else {
        uint16_t signs;
        __builtin_memcpy(&signs, top + 4 * block + 2 * half, 2);
        const uint8x16_t spread = vqtbl1q_u8(vreinterpretq_u8_u16(vdupq_n_u16(signs)), byte_of);
        out = vorrq_s8(out, vreinterpretq_s8_u8(vandq_u8(vtstq_u8(spread, bit_of), vdupq_n_u8(0xf0))));
      }
      vst1q_s8(to + 32 * block + 16 * half, out);
    }
  }
}

constexpr bool kLoadsPacked = false;

// --- 16-bit integers ----------------------------------------------------------------------------------

constexpr int kPairRows = 2, kPairQueries = 1, kWeighQueries = 2;

inline Vec load(const int16_t* from) {
  return quarters([&](int i) { return vcvtq_f32_s32(vmovl_s16(vld1_s16(from + 4 * i))); });
}
inline void store(int16_t* to, Vec a) {
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) vst1_s16(to + 4 * i, vmovn_s32(vcvtnq_s32_f32(a.v[i])));
}
template <int Shift>
inline void widen(const int8_t* from, int16_t factor, int16_t* to) {
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i)
    vst1q_s16(to + 8 * i, vqrdmulhq_n_s16(vshlq_n_s16(vmovl_s8(vld1_s8(from + 8 * i)), Shift), factor));
}
// Even and odd elements are separated so that both elements of a pair are added to the same lane.
struct Pairs {
  int16x8x2_t v[2];
};
inline Pairs load_pairs(const int16_t* from) { return {{vld2q_s16(from), vld2q_s16(from + 16)}}; }
inline void add_products(Ints& sums, const Pairs& a, const Pairs& b) {
  MONOLITH_UNROLL
  for (int i = 0; i < 2; ++i) {
    MONOLITH_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      const int16x8_t x = a.v[i].val[odd], y = b.v[i].val[odd];
      sums.v[2 * i] = vmlal_s16(sums.v[2 * i], vget_low_s16(x), vget_low_s16(y));
      sums.v[2 * i + 1] = vmlal_high_s16(sums.v[2 * i + 1], x, y);
    }
  }
}
struct RowPairs {
  int16x8_t first[4], second[4];
};
struct WeightPair {
  int16_t first, second;
};
struct PairSums {
  int32x4_t v[8];
};
inline RowPairs zip_rows(const int16_t* first, const int16_t* second) {
  RowPairs out;
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) {
    out.first[i] = vld1q_s16(first + 8 * i);
    out.second[i] = vld1q_s16(second + 8 * i);
  }
  return out;
}
inline WeightPair splat_weights(const int16_t* from) { return {from[0], from[1]}; }
inline void clear(PairSums& sums) {
  MONOLITH_UNROLL
  for (int i = 0; i < 8; ++i) sums.v[i] = vdupq_n_s32(0);
}
inline void add_weighted(PairSums& sums, const RowPairs& rows, WeightPair weights) {
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) {
    int32x4_t& low = sums.v[2 * i];
    int32x4_t& high = sums.v[2 * i + 1];
    low = vmlal_n_s16(low, vget_low_s16(rows.first[i]), weights.first);
    high = vmlal_high_n_s16(high, rows.first[i], weights.first);
    low = vmlal_n_s16(low, vget_low_s16(rows.second[i]), weights.second);
    high = vmlal_high_n_s16(high, rows.second[i], weights.second);
  }
}
inline void to_floats(const PairSums& sums, Vec& low, Vec& high) {
  low = quarters([&](int i) { return vcvtq_f32_s32(sums.v[i]); });
  high = quarters([&](int i) { return vcvtq_f32_s32(sums.v[4 + i]); });
}
