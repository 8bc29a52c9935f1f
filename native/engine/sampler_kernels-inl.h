// The body of sampler_kernels_*.cc. Sixteen lanes always, in GNU vector types: the compiler splits them
// into what the instruction set has, and every lane sees the same operations (no fused multiply-add), so
// all versions agree bit for bit. Vectors pass by reference: by value, 64-byte arguments depend on the
// ABI. Include inside an unnamed namespace within namespace monolith.

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef float Floats8 __attribute__((vector_size(32)));
typedef double Doubles8 __attribute__((vector_size(64)));
typedef double Doubles4 __attribute__((vector_size(32)));
typedef double Doubles2 __attribute__((vector_size(16)));
#define MONOLITH_INLINE inline __attribute__((always_inline))

MONOLITH_INLINE void load(const float* from, Floats& lanes) { __builtin_memcpy(&lanes, from, sizeof lanes); }

// Logits to weights, in place: exp(x) for x = (logit - max) / temperature <= 0, rounded to a multiple of 2^-34; 0 below
// about -24.3. Several vectors in step: each of these operations waits for the one before it, and a processor's
// schedulers do not hold enough of them to find the next vector's by themselves.
template <int n>
MONOLITH_INLINE void weigh_lanes(Floats (&x)[n], const WeightScale& scale) {
  constexpr float kRound = 12582912.0f;   // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  constexpr float kFactors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  // Floats in [2^-11, 2^-10) are multiples of 2^-34: there the addition does the rounding.
  constexpr float kSmall = 1.0f / 2048;
  Floats shifted[n], p[n];
#define MONOLITH_EACH _Pragma("GCC unroll 8") for (int i = 0; i < n; ++i)
  MONOLITH_EACH x[i] = x[i] - scale.max;
  MONOLITH_EACH x[i] = x[i] * scale.inverse_temperature;
  MONOLITH_EACH x[i] = x[i] > -80.0f ? x[i] : Floats{} - 80.0f;   // keeps 2^n below a normal float
  MONOLITH_EACH shifted[i] = x[i] * 1.44269504f;
  MONOLITH_EACH shifted[i] = shifted[i] + kRound;
  MONOLITH_EACH p[i] = shifted[i] - kRound;
  // ln 2 in two parts; the first has 9 bits, so that its product with |n| <= 116 is exact.
  MONOLITH_EACH x[i] = x[i] - p[i] * 0.693359375f;
  MONOLITH_EACH x[i] = x[i] - p[i] * -2.12194440e-4f;
  // Taylor to x^7: |x| <= 0.35, the first term left out is below 6e-9.
  MONOLITH_EACH p[i] = x[i] * (1.0f / 5040);
  MONOLITH_EACH p[i] = p[i] + kFactors[0];
#pragma GCC unroll 8
  for (int k = 1; k < 7; ++k) {
    MONOLITH_EACH p[i] = p[i] * x[i];
    MONOLITH_EACH p[i] = p[i] + kFactors[k];
  }
  MONOLITH_EACH {
    Ints exponent;
    __builtin_memcpy(&exponent, &shifted[i], sizeof exponent);
    exponent = (exponent << 23) + (127 << 23);   // the bits of kRound above n are shifted out
    __builtin_memcpy(&shifted[i], &exponent, sizeof exponent);
  }
  MONOLITH_EACH p[i] = p[i] * shifted[i];
  MONOLITH_EACH x[i] = p[i] + kSmall;
  MONOLITH_EACH x[i] = x[i] - kSmall;
  MONOLITH_EACH x[i] = p[i] < kSmall ? x[i] : p[i];
#undef MONOLITH_EACH
}

// One half added to the other: two lots of lanes in the place of one.
template <typename Half, typename Whole>
MONOLITH_INLINE void fold(const Whole& lanes, Half& out) {
  static_assert(sizeof lanes == 2 * sizeof out);
  Half other;
  __builtin_memcpy(&out, &lanes, sizeof out);
  __builtin_memcpy(&other, reinterpret_cast<const char*>(&lanes) + sizeof out, sizeof other);
  out += other;
}

// Sums of weights: exact, so that neither the lanes nor the order of addition matter.
struct Sums {
  Doubles8 low{}, high{};

  MONOLITH_INLINE void add(const Floats& weights) {
    Floats8 half;
    __builtin_memcpy(&half, &weights, sizeof half);
    low += __builtin_convertvector(half, Doubles8);
    __builtin_memcpy(&half, reinterpret_cast<const char*>(&weights) + sizeof half, sizeof half);
    high += __builtin_convertvector(half, Doubles8);
  }
  MONOLITH_INLINE double total() const {
    const Doubles8 eight = low + high;
    Doubles4 four;
    Doubles2 two;
    fold(eight, four);
    fold(four, two);
    return two[0] + two[1];
  }
};

// A whole block to work on; the row's last one is padded with minus infinity.
MONOLITH_INLINE const float* block_at(const float* logits, int64_t begin, int64_t n, float* padded) {
  if (begin + kBlock <= n) return logits + begin;
  for (int i = 0; i < kBlock; ++i)
    padded[i] = begin + i < n ? logits[begin + i] : -std::numeric_limits<float>::infinity();
  return padded;
}

bool scan(const float* logits, int64_t n, float* block_max) {
  Floats bad{};   // x - x is 0 for a finite x, NaN otherwise
  for (int64_t begin = 0, block = 0; begin < n; begin += kBlock, ++block) {
    float padded[kBlock];
    const float* x = block_at(logits, begin, n, padded);
    Floats best, lanes;
    load(x, best);
    for (int i = kLanes; i < kBlock; i += kLanes) {
      load(x + i, lanes);
      best = best > lanes ? best : lanes;
    }
    if (x == padded) {
      for (int64_t i = begin; i < n; ++i) bad[0] += logits[i] - logits[i];
    } else {
      for (int i = 0; i < kBlock; i += kLanes) {
        load(x + i, lanes);
        bad += lanes - lanes;
      }
    }
    float most = best[0];
    for (int i = 1; i < kLanes; ++i) most = best[i] > most ? best[i] : most;
    block_max[block] = most;
  }
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += bad[i];
  return sum == 0;
}

void weigh(const float* logits, int64_t n, WeightScale scale, float* out) {
  constexpr int kStep = kBlock / kLanes;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Floats w[kStep];
    __builtin_memcpy(w, logits + i, sizeof w);
    weigh_lanes(w, scale);
    __builtin_memcpy(out + i, w, sizeof w);
  }
  for (; i < n; i += kLanes) {
    Floats w[1] = {Floats{} - std::numeric_limits<float>::infinity()};
    const int64_t end = i + kLanes < n ? i + kLanes : n;
    for (int64_t j = i; j < end; ++j) w[0][j - i] = logits[j];
    weigh_lanes(w, scale);
    for (int64_t j = i; j < end; ++j) out[j] = w[0][j - i];
  }
}

template <bool kCuts>
MONOLITH_INLINE double sum_blocks(const float* logits, int64_t n, const float* block_max, const WeightScale& scale, const Cut& cut,
                                  float min_weight, double* block_sums) {
  Ints ids;
  for (int i = 0; i < kLanes; ++i) ids[i] = i;
  double row_total = 0;
  for (int64_t begin = 0, block = 0; begin < n; begin += kBlock, ++block) {
    // exp(-24.5) < 2^-35 rounds to 0, as does everything below it.
    if (block_max[block] < cut.logit || (block_max[block] - scale.max) * scale.inverse_temperature < -24.5f) {
      block_sums[block] = 0;
      continue;
    }
    float padded[kBlock];
    const float* x = block_at(logits, begin, n, padded);
    constexpr int kStep = kBlock / kLanes;
    Floats w[kStep];
    __builtin_memcpy(w, x, sizeof w);
    weigh_lanes(w, scale);
    Sums sums;
#pragma GCC unroll 4
    for (int i = 0; i < kStep; ++i) {
      if (kCuts) {
        Floats logit;
        load(x + i * kLanes, logit);
        const Ints position = ids + static_cast<int32_t>(begin + i * kLanes);
        const Ints kept = ((logit > cut.logit) | ((logit == cut.logit) & (position <= cut.id))) & (w[i] >= min_weight);
        w[i] = kept ? w[i] : Floats{};
      }
      sums.add(w[i]);
    }
    row_total += block_sums[block] = sums.total();
  }
  return row_total;
}

double sum(const float* logits, int64_t n, const float* block_max, WeightScale scale, Cut cut, float min_weight,
           double* block_sums) {
  const bool cuts = cut.logit != -std::numeric_limits<float>::infinity() || min_weight > 0;
  return cuts ? sum_blocks<true>(logits, n, block_max, scale, cut, min_weight, block_sums)
              : sum_blocks<false>(logits, n, block_max, scale, cut, min_weight, block_sums);
}

void select(const float* logits, int64_t n, const uint64_t* words, float* out, float* block_max) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Ints bit;
  for (int i = 0; i < kLanes; ++i) bit[i] = 1 << i;
  for (int64_t begin = 0, block = 0; begin < n; begin += kBlock, ++block) {
    const uint64_t word = words[block];
    float most = kNever;
    if (begin + kBlock > n) {
      for (int64_t i = begin; i < n; ++i) {
        out[i] = word >> (i - begin) & 1 ? logits[i] : kNever;
        most = out[i] > most ? out[i] : most;
      }
    } else {
      Floats best = Floats{} + kNever;
      for (int i = 0; i < kBlock; i += kLanes) {
        Floats lanes = Floats{} + kNever;
        if (word != 0) {
          load(logits + begin + i, lanes);
          const Ints set = (Ints{} + static_cast<int32_t>(word >> i & 0xFFFF)) & bit;
          lanes = set != 0 ? lanes : Floats{} + kNever;
          best = best > lanes ? best : lanes;
        }
        __builtin_memcpy(out + begin + i, &lanes, sizeof lanes);
      }
      if (word != 0)
        for (int i = 0; i < kLanes; ++i) most = best[i] > most ? best[i] : most;
    }
    block_max[block] = most;
  }
}

#undef MONOLITH_INLINE
