// The body of sampler_kernels_*.cc. Sixteen lanes always, in GNU vector types: the compiler splits them
// into what the instruction set has, and every lane sees the same operations (no fused multiply-add), so
// all versions agree bit for bit. Vectors pass by reference: by value, 64-byte arguments depend on the
// ABI. Include inside an unnamed namespace within namespace monolith.

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(128)));
#define MONOLITH_INLINE inline __attribute__((always_inline))

MONOLITH_INLINE void load(const float* from, Floats& lanes) { __builtin_memcpy(&lanes, from, sizeof lanes); }

// exp(x) for x <= 0, rounded to a multiple of 2^-34; 0 below about -24.3.
// `x` is overwritten by the result.
MONOLITH_INLINE void quantized_exp(Floats& x) {
  x = x > -80.0f ? x : Floats{} - 80.0f;   // keeps 2^n below a normal float; far beyond what rounds to 0
  constexpr float kRound = 12582912.0f;   // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const Floats shifted = x * 1.44269504f + kRound;
  const Floats n = shifted - kRound;
  // ln 2 in two parts; the first has 9 bits, so that its product with |n| <= 116 is exact.
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  // Taylor to r^7: |r| <= 0.35, the first term left out is below 6e-9.
  Floats p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  Ints exponent;
  __builtin_memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent << 23) + (127 << 23);   // the bits of kRound above n are shifted out
  Floats scale;
  __builtin_memcpy(&scale, &exponent, sizeof scale);
  const Floats w = p * scale;
  // Floats in [2^-11, 2^-10) are multiples of 2^-34: there the addition does the rounding.
  constexpr float kSmall = 1.0f / 2048;
  const Floats rounded = (w + kSmall) - kSmall;
  x = w < kSmall ? rounded : w;
}

// Logits to weights, in place.
MONOLITH_INLINE void weigh_lanes(Floats& logits, const WeightScale& scale) {
  logits = (logits - scale.max) * scale.inverse_temperature;
  quantized_exp(logits);
}

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
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats w;
    load(logits + i, w);
    weigh_lanes(w, scale);
    __builtin_memcpy(out + i, &w, sizeof w);
  }
  if (i < n) {
    Floats w = Floats{} - std::numeric_limits<float>::infinity();
    for (int64_t j = i; j < n; ++j) w[j - i] = logits[j];
    weigh_lanes(w, scale);
    for (int64_t j = i; j < n; ++j) out[j] = w[j - i];
  }
}

double sum(const float* logits, int64_t n, const float* block_max, WeightScale scale, Cut cut, float min_weight,
           double* block_sums) {
  const bool cuts = cut.logit != -std::numeric_limits<float>::infinity() || min_weight > 0;
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
    Doubles lanes{};
    for (int i = 0; i < kBlock; i += kLanes) {
      Floats logit;
      load(x + i, logit);
      Floats w = logit;
      weigh_lanes(w, scale);
      if (cuts) {
        const Ints position = ids + static_cast<int32_t>(begin + i);
        const Ints kept = ((logit > cut.logit) | ((logit == cut.logit) & (position <= cut.id))) & (w >= min_weight);
        w = kept ? w : Floats{};
      }
      lanes += __builtin_convertvector(w, Doubles);
    }
    double block_total = 0;
    for (int i = 0; i < kLanes; ++i) block_total += lanes[i];
    row_total += block_sums[block] = block_total;
  }
  return row_total;
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
