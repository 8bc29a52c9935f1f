// Vectors of 16 floats without SIMD. They define the semantics that the other vector_*.h must match bit for bit.
// Included once, by ops/kernels_plain.cc, inside its unnamed namespace.

struct Vec {
  float lane[kLanes];
};

// Number of vectors that one register tile accumulates, and maximum number of queries in a register tile; both for
// float products and for byte products.
constexpr int kAccumulators = 4, kByteAccumulators = 4;
constexpr int kRegisterQueries = 4, kByteQueries = 4;
// Only register tiles with at least this many queries prefetch pages (ops/attention_q8-inl.h). 0 = no prefetching.
constexpr int kPrefetchQueries = 0;
// Number of exponentials that are computed together.
constexpr int kExponentials = 1;

template <typename Fn>
inline Vec each(Fn fn) {
  Vec out;
  for (int i = 0; i < kLanes; ++i) out.lane[i] = fn(i);
  return out;
}

inline Vec splat(float x) {
  return each([&](int) { return x; });
}
inline Vec load(const float* from) {
  return each([&](int i) { return from[i]; });
}
inline Vec load(const uint16_t* halves) {
  return each([&](int i) { return half_to_float(halves[i]); });
}
inline void store(float* to, Vec a) {
  for (int i = 0; i < kLanes; ++i) to[i] = a.lane[i];
}
inline void store(uint16_t* halves, Vec a) {
  for (int i = 0; i < kLanes; ++i) halves[i] = float_to_half(a.lane[i]);
}
// Loads n values (0 < n < 16) into the first lanes. The other lanes are zero.
inline Vec load_first(const float* from, int n) {
  return each([&](int i) { return i < n ? from[i] : 0.0f; });
}
inline void store_first(float* to, Vec a, int n) {
  for (int i = 0; i < n; ++i) to[i] = a.lane[i];
}

inline Vec add(Vec a, Vec b) {
  return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Vec sub(Vec a, Vec b) {
  return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Vec mul(Vec a, Vec b) {
  return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Vec div(Vec a, Vec b) {
  return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
// a * b + c, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) {
  return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
// Returns the larger value, or b if either is NaN.
inline Vec max(Vec a, Vec b) {
  return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
// Takes lanes below n from a and the remaining lanes from b.
inline Vec first(int n, Vec a, Vec b) {
  return each([&](int i) { return i < n ? a.lane[i] : b.lane[i]; });
}
// x < y ? a : b.
inline Vec if_less(Vec x, Vec y, Vec a, Vec b) {
  return each([&](int i) { return x.lane[i] < y.lane[i] ? a.lane[i] : b.lane[i]; });
}
// Bit i is set if a[i] == b[i].
inline uint32_t equal_mask(Vec a, Vec b) {
  uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(a.lane[i] == b.lane[i]) << i;
  return mask;
}
// Returns lanes 1 0 3 2 5 4 ...
inline Vec swap_pairs(Vec a) {
  return each([&](int i) { return a.lane[i ^ 1]; });
}
// Returns lane i ^ Distance in lane i. Distance: 2, 4 or 8.
template <int Distance>
inline Vec swap_lanes(Vec a) {
  return each([&](int i) { return a.lane[i ^ Distance]; });
}
// For x = 1.5 * 2^23 + n with an integer n, returns 2^(n - 1). Exact for -125 <= n <= 128.
inline Vec half_power_of_two(Vec x) {
  return each([&](int i) { return std::bit_cast<float>((std::bit_cast<uint32_t>(x.lane[i]) << 23) + (126u << 23)); });
}

// Returns a * 2^n, for x as in half_power_of_two(). The result must not be below 2^-125.
inline Vec times_power_of_two(Vec a, Vec x) { return mul(add(a, a), half_power_of_two(x)); }
// Returns 0 if x < y, otherwise a.
inline Vec zero_if_less(Vec x, Vec y, Vec a) { return if_less(x, y, splat(0.0f), a); }

// Folds the halves onto each other: adds lanes i and i + 8, then i and i + 4, i + 2 and i + 1.
inline float sum_of_lanes(Vec a) {
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) a.lane[i] += a.lane[i + width];
  return a.lane[0];
}
inline float max_of_lanes(Vec a) {
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) a.lane[i] = a.lane[i] > a.lane[i + width] ? a.lane[i] : a.lane[i + width];
  return a.lane[0];
}
inline void prefetch(const void*) {}

inline void prefetch_far(const void*) {}  // Prefetches into the L2 cache.

// --- 8-bit integers -----------------------------------------------------------------------------------

inline Vec load(const int8_t* from) {
  return each([&](int i) { return static_cast<float>(from[i]); });
}
// Requires values that round to integers in -127 .. 127. Rounds ties to even.
inline void store(int8_t* to, Vec a) {
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<int8_t>(std::nearbyint(a.lane[i]));
}
struct Ints {
  int32_t lane[kLanes];
};
inline Ints splat_int(int32_t x) {
  Ints out;
  for (int32_t& lane : out.lane) lane = x;
  return out;
}
inline Vec to_floats(Ints a) {
  return each([&](int i) { return static_cast<float>(a.lane[i]); });
}
// Quads: four unsigned bytes for each of 16 positions. QueryQuad: four signed bytes of a query, for all positions.
struct Quads {
  uint8_t byte[4 * kLanes];
};
struct QueryQuad {
  int8_t byte[4];
};
inline Quads load_quads(const int8_t* from) {
  Quads out;
  for (int i = 0; i < 4 * kLanes; ++i) out.byte[i] = static_cast<uint8_t>(from[i]);
  return out;
}
// kQueryWords is the number of 32-bit words in a packed query quad; pack_query_quad() packs one.
constexpr int kQueryWords = 1;
inline void pack_query_quad(const int8_t* numbers, uint32_t* words) {
  *words = 0;
  for (int i = 0; i < 4; ++i) *words |= static_cast<uint32_t>(static_cast<uint8_t>(numbers[i])) << (8 * i);
}
inline QueryQuad splat_query(const uint32_t* words) {
  QueryQuad out;
  for (int i = 0; i < 4; ++i) out.byte[i] = static_cast<int8_t>(*words >> (8 * i));
  return out;
}
// Returns sum plus the exact dot product of the four bytes.
inline Ints dot(Ints sum, const Quads& keys, QueryQuad query) {
  for (int i = 0; i < kLanes; ++i)
    for (int j = 0; j < 4; ++j) sum.lane[i] += keys.byte[4 * i + j] * query.byte[j];
  return sum;
}

// --- 4- and 5-bit integers (CpuKvCache in ops.h) -------------------------------------------------------

// Unpacks a pair of quads for 16 positions. `top` points to the block's highest bits, or is null for 4-bit integers.
// `pair` is the index of the pair in the block.
inline void unpack_quads(const uint8_t* from, const uint8_t* top, int pair, int8_t* to) {
  for (int i = 0; i < 4 * kLanes; ++i) {
    const auto bit = [&](int quad) { return top == nullptr ? 0 : (top[i] >> key_top_bit(quad) & 1) << 4; };
    to[i] = static_cast<int8_t>((from[i] & 15) | bit(2 * pair));
    to[4 * kLanes + i] = static_cast<int8_t>(from[i] >> 4 | bit(2 * pair + 1));
  }
}
// Unpacks four blocks of numbers in a row. `top` points to the blocks' sign bits. If it is null, the numbers are 4-bit
// integers to which 8 was added.
inline void unpack_blocks(const uint8_t* from, const uint8_t* top, int8_t* to) {
  for (int i = 0; i < 4 * kQ8Block; ++i) {
    const int block = i / kQ8Block, within = i % kQ8Block, byte = from[block * kQ8Block / 2 + within % kLanes];
    const int number = within < kLanes ? byte & 15 : byte >> 4;
    const int sign = top == nullptr ? 0 : top[i / 8] >> i % 8 & 1;
    to[i] = static_cast<int8_t>(top == nullptr ? number - 8 : number - 16 * sign);
  }
}

// Whether load_packed() is faster than unpacking if only one register tile uses the numbers.
constexpr bool kLoadsPacked = false;
// Loads a block of 4-bit numbers in a row as floats.
inline void load_packed(const uint8_t* from, Vec& low, Vec& high) {
  low = each([&](int i) { return static_cast<float>((from[i] & 15) - 8); });
  high = each([&](int i) { return static_cast<float>((from[i] >> 4) - 8); });
}

// --- 16-bit integers ----------------------------------------------------------------------------------

// For 16-bit integers: the numbers of rows and queries per register tile for dot products, and the number of queries
// per register tile for weighted sums.
constexpr int kPairRows = 2, kPairQueries = 2, kWeighQueries = 2;

inline Vec load(const int16_t* from) {
  return each([&](int i) { return static_cast<float>(from[i]); });
}
// Requires values that round to integers in -32767 .. 32767. Rounds ties to even.
inline void store(int16_t* to, Vec a) {
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<int16_t>(std::nearbyint(a.lane[i]));
}
// Computes 2^Shift * number * factor / 2^15 for 32 numbers, rounding ties up. 2^Shift * number must fit in 16 bits.
template <int Shift>
inline void widen(const int8_t* from, int16_t factor, int16_t* to) {
  for (int i = 0; i < 2 * kLanes; ++i)
    to[i] = static_cast<int16_t>((from[i] * (1 << Shift) * factor + (1 << 14)) >> 15);
}
// A vector of 32 integers. Lane i of a sum adds up the products of elements 2i and 2i + 1.
struct Pairs {
  int16_t number[2 * kLanes];
};
inline Pairs load_pairs(const int16_t* from) {
  Pairs out;
  for (int i = 0; i < 2 * kLanes; ++i) out.number[i] = from[i];
  return out;
}
inline void add_products(Ints& sums, const Pairs& a, const Pairs& b) {
  for (int i = 0; i < 2 * kLanes; ++i) sums.lane[i / 2] += a.number[i] * b.number[i];
}
// RowPairs holds 32 integers from each of two rows, interleaved in an order that depends on the instruction set.
// WeightPair holds one weight per row. PairSums holds the 32 weighted sums of the two rows.
struct RowPairs {
  int16_t first[2 * kLanes], second[2 * kLanes];
};
struct WeightPair {
  int16_t first, second;
};
struct PairSums {
  int32_t lane[2 * kLanes];
};
inline RowPairs zip_rows(const int16_t* first, const int16_t* second) {
  RowPairs out;
  for (int i = 0; i < 2 * kLanes; ++i) {
    out.first[i] = first[i];
    out.second[i] = second[i];
  }
  return out;
}
inline WeightPair splat_weights(const int16_t* from) { return {from[0], from[1]}; }
inline void clear(PairSums& sums) { sums = {}; }
inline void add_weighted(PairSums& sums, const RowPairs& rows, WeightPair weights) {
  for (int i = 0; i < 2 * kLanes; ++i) sums.lane[i] += rows.first[i] * weights.first + rows.second[i] * weights.second;
}
inline void to_floats(const PairSums& sums, Vec& low, Vec& high) {
  low = each([&](int i) { return static_cast<float>(sums.lane[i]); });
  high = each([&](int i) { return static_cast<float>(sums.lane[kLanes + i]); });
}
