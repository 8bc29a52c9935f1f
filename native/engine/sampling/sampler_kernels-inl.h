// Implementation of sampler_kernels_*.cc with GNU vector types of the instruction set's native width, because compilers
// generate poor code for wider vectors. Every lane performs the same operations without fused multiply-add, and sums of
// weights are exact, so all versions agree bit for bit. Vectors are passed by reference because passing 64-byte vectors
// by value depends on the ABI. Include this file inside an unnamed namespace within namespace monolith.

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kTogether = 4;               // Number of vectors interleaved to hide instruction latency.
constexpr int kPart = kTogether * kLanes;  // Number of logits in kTogether vectors.
static_assert(kBlock % kPart == 0);
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Shorts __attribute__((vector_size(2 * kLanes)));
typedef float HalfFloats __attribute__((vector_size(2 * kLanes)));
// A vector of doubles as wide as Floats, so with half as many lanes.
typedef double Doubles __attribute__((vector_size(4 * kLanes)));
#define MONOLITH_INLINE inline __attribute__((always_inline))

MONOLITH_INLINE void load(const float* from, Floats& lanes) { __builtin_memcpy(&lanes, from, sizeof lanes); }

// Converts logits to weights in place: exp(x) for x = (logit - max) / temperature <= 0, rounded to a multiple of 2^-34;
// weights below about exp(-24.3) round to 0. Several vectors are interleaved because each operation depends on the
// previous one, and the CPU's out-of-order window is too small to reach the next vector's operations.
template <int n>
MONOLITH_INLINE void weigh_lanes(Floats (&x)[n], const WeightScale& scale) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
  constexpr float kFactors[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  // Floats in [2^-11, 2^-10) are multiples of 2^-34, so adding kSmall rounds to a multiple of 2^-34.
  constexpr float kSmall = 1.0f / 2048;
  Floats shifted[n], p[n];
#define MONOLITH_EACH _Pragma("GCC unroll 8") for (int i = 0; i < n; ++i)
  MONOLITH_EACH x[i] = x[i] - scale.max;
  MONOLITH_EACH x[i] = x[i] * scale.inverse_temperature;
  MONOLITH_EACH x[i] = x[i] > -80.0f ? x[i] : Floats{} - 80.0f;  // Clamps x so that 2^n remains a normal float.
  MONOLITH_EACH shifted[i] = x[i] * 1.44269504f;
  MONOLITH_EACH shifted[i] = shifted[i] + kRound;
  MONOLITH_EACH p[i] = shifted[i] - kRound;
  // ln 2 in two parts. The first part has 9 bits, so its product with |n| <= 116 is exact.
  MONOLITH_EACH x[i] = x[i] - p[i] * 0.693359375f;
  MONOLITH_EACH x[i] = x[i] - p[i] * -2.12194440e-4f;
  // Taylor series up to x^7: |x| <= 0.35, so the first omitted term is below 6e-9.
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
    exponent = (exponent << 23) + (127 << 23);  // The shift discards the bits of kRound above n.
    __builtin_memcpy(&shifted[i], &exponent, sizeof exponent);
  }
  MONOLITH_EACH p[i] = p[i] * shifted[i];
  MONOLITH_EACH x[i] = p[i] + kSmall;
  MONOLITH_EACH x[i] = x[i] - kSmall;
  MONOLITH_EACH x[i] = p[i] < kSmall ? x[i] : p[i];
#undef MONOLITH_EACH
}

// Exact sums of weights: neither the number of lanes nor the order of addition affects the result.
struct Sums {
  Doubles low{}, high{};

  MONOLITH_INLINE void add(const Floats& weights) {
    HalfFloats half;
    __builtin_memcpy(&half, &weights, sizeof half);
    low += __builtin_convertvector(half, Doubles);
    __builtin_memcpy(&half, reinterpret_cast<const char*>(&weights) + sizeof half, sizeof half);
    high += __builtin_convertvector(half, Doubles);
  }
  MONOLITH_INLINE double total() const {
    const Doubles sums = low + high;
    double pairs[kLanes / 4];
    for (int i = 0; i < kLanes / 4; ++i) pairs[i] = sums[2 * i] + sums[2 * i + 1];
    for (int n = kLanes / 8; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) pairs[i] += pairs[i + n];
    return pairs[0];
  }
};

// Returns a whole block; a row's last block is padded with minus infinity.
MONOLITH_INLINE const float* block_at(const float* logits, int64_t begin, int64_t n, float* padded) {
  if (begin + kBlock <= n) return logits + begin;
  for (int i = 0; i < kBlock; ++i)
    padded[i] = begin + i < n ? logits[begin + i] : -std::numeric_limits<float>::infinity();
  return padded;
}

bool scan(const float* logits, int64_t n, float* block_max) {
  Floats bad{};  // x - x is 0 for finite x and NaN otherwise.
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
  int64_t i = 0;
  for (; i + kPart <= n; i += kPart) {
    Floats w[kTogether];
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

void distances(const float* logits, int64_t n, WeightScale scale, uint16_t* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    Floats x;
    const int64_t left = n - i;
    if (left >= kLanes) {
      load(logits + i, x);
    } else {
      for (int64_t j = 0; j < kLanes; ++j) x[j] = j < left ? logits[i + j] : scale.max;
    }
    x = (scale.max - x) * scale.inverse_temperature;
    x = x * (kDistances / kFarthest);
    x = x < kDistances - 1 ? x : Floats{} + (kDistances - 1);
    const Shorts steps = __builtin_convertvector(__builtin_convertvector(x, Ints), Shorts);
    __builtin_memcpy(out + i, &steps, left >= kLanes ? sizeof steps : static_cast<uint64_t>(left) * sizeof(uint16_t));
  }
}

template <bool kCuts>
MONOLITH_INLINE double sum_blocks(const float* logits, int64_t n, const float* block_max, const WeightScale& scale,
                                  const Cut& cut, float min_weight, double* block_sums) {
  Ints ids;
  for (int i = 0; i < kLanes; ++i) ids[i] = i;
  double row_total = 0;
  for (int64_t begin = 0, block = 0; begin < n; begin += kBlock, ++block) {
    // exp(-24.5) < 2^-35, so this weight and all smaller ones round to 0.
    if (block_max[block] < cut.logit || (block_max[block] - scale.max) * scale.inverse_temperature < -24.5f) {
      block_sums[block] = 0;
      continue;
    }
    float padded[kBlock];
    const float* x = block_at(logits, begin, n, padded);
    Sums sums;
    for (int part = 0; part < kBlock; part += kPart) {
      Floats w[kTogether];
      __builtin_memcpy(w, x + part, sizeof w);
      weigh_lanes(w, scale);
#pragma GCC unroll 4
      for (int i = 0; i < kTogether; ++i) {
        if (kCuts) {
          const int at = part + i * kLanes;
          Floats logit;
          load(x + at, logit);
          const Ints position = ids + static_cast<int32_t>(begin + at);
          const Ints kept =
              ((logit > cut.logit) | ((logit == cut.logit) & (position <= cut.id))) & (w[i] >= min_weight);
          w[i] = kept ? w[i] : Floats{};
        }
        sums.add(w[i]);
      }
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
          const Ints set = (Ints{} + static_cast<int32_t>(word >> i & ((1u << kLanes) - 1))) & bit;
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
