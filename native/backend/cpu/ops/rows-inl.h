// Row kernels over vectors of 16 floats: exponential, norms, RoPE, logits. Compiled once per instruction set, inside an
// unnamed namespace, after one vector_*.h.

// Range reduction for the exponential: x = n ln 2 + r with |r| <= ln(2)/2, and e^r - 1 = r + r^2 q(r). The polynomial q
// is a minimax fit; the relative error of e^r is at most 3.1e-9.
struct Exponent {
  Vec fraction;  // Equals e^r - 1.
  Vec shifted;   // n, in the form that half_power_of_two() takes.
};
// Computes N vectors together, step by step. If they were computed one after another, each would wait for its own long
// dependency chain.
template <int N>
inline void exponents_of(const Vec (&x)[N], Exponent (&out)[N]) {
  // Adding this number rounds to an integer, which ends up in the low mantissa bits.
  const Vec magic = splat(0x1.8p23f);
  Vec r[N], q[N];
  MONOLITH_UNROLL
  for (int i = 0; i < N; ++i) out[i].shifted = fma(x[i], splat(0x1.715476p+0f), magic);
  MONOLITH_UNROLL
  for (int i = 0; i < N; ++i) {
    const Vec n = sub(out[i].shifted, magic);
    // ln 2 is split into two parts so that the product of n and the first part is exact.
    r[i] = fma(n, splat(-0x1.62e4p-1f), x[i]);
    r[i] = fma(n, splat(-0x1.7f7d1cp-20f), r[i]);
  }
  const auto step = [&](float coefficient) {
    MONOLITH_UNROLL
    for (int i = 0; i < N; ++i) q[i] = fma(q[i], r[i], splat(coefficient));
  };
  MONOLITH_UNROLL
  for (int i = 0; i < N; ++i) q[i] = splat(0x1.6a2352p-10f);
  step(0x1.123a6cp-7f);
  step(0x1.5558f4p-5f);
  step(0x1.55549p-3f);
  step(0x1.fffffcp-2f);
  MONOLITH_UNROLL
  for (int i = 0; i < N; ++i) out[i].fraction = fma(mul(r[i], r[i]), q[i], r[i]);
}
inline Exponent exponent_of(Vec x) {
  const Vec xs[1] = {x};
  Exponent out[1];
  exponents_of(xs, out);
  return out[0];
}

// exp(x) with an error of at most 1 unit in the last place, and the same bits on every instruction set. The result is
// zero for x below -86.6 (2^-125) and infinity for x above 88.72. NaN stays NaN.
inline Vec exponential(Vec x) {
  const Exponent parts = exponent_of(x);
  const Vec e = add(parts.fraction, splat(1.0f));
  // Multiplies by 2^(n-1) because n = 128 is outside the exponent range.
  Vec result = mul(add(e, e), half_power_of_two(parts.shifted));
  result = if_less(splat(0x1.62e42ep+6f), x, splat(__builtin_inff()), result);
  return if_less(x, splat(-86.6f), splat(0.0f), result);
}

// tanh(x) with an error of at most 3 units in the last place, even for small x, and the same bits on every instruction
// set. NaN stays NaN. With m = e^(-2|x|) - 1, the result is -m / (m + 2), and m = 2^n (e^r - 1) + (2^n - 1) avoids
// cancellation.
inline Vec hyperbolic_tangent(Vec x) {
  const Vec zero = splat(0.0f), negative = if_less(zero, x, sub(zero, x), x);  // Equals -|x|.
  // For 2|x| >= 40, the result is 1, because e^-40 is less than half a unit in the last place.
  const Exponent parts = exponent_of(max(splat(-40.0f), add(negative, negative)));
  const Vec half = half_power_of_two(parts.shifted), power = add(half, half);
  const Vec m = fma(power, parts.fraction, sub(power, splat(1.0f)));
  const Vec result = div(m, add(m, splat(2.0f)));  // tanh(-|x|).
  return if_less(zero, x, sub(zero, result), result);
}

// Calls fn(offset, lanes) for each vector in [0, count). `lanes` is 16 except possibly for the last vector.
template <typename Fn>
inline void for_vectors(int64_t count, Fn fn) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) fn(i, kLanes);
  if (i < count) fn(i, static_cast<int>(count - i));
}
inline Vec load_up_to(const float* from, int n) { return n == kLanes ? load(from) : load_first(from, n); }
inline void store_up_to(float* to, Vec a, int n) {
  if (n == kLanes)
    store(to, a);
  else
    store_first(to, a, n);
}

// Sums a function of every vector of x. Vector i is added to partial sum i % 4, and the partial sums are added in a
// fixed tree. `add_to` takes the sum so far, the vector and its number of elements.
template <typename Add>
inline float sum_over(const float* x, int64_t dim, Add add_to) {
  Vec sums[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= dim; i += 4 * kLanes) {
    MONOLITH_UNROLL
    for (int j = 0; j < 4; ++j) sums[j] = add_to(sums[j], load(x + i + j * kLanes), kLanes);
  }
  for (int j = 0; i < dim; i += kLanes, ++j) {
    const int n = dim - i < kLanes ? static_cast<int>(dim - i) : kLanes;
    sums[j] = add_to(sums[j], load_up_to(x + i, n), n);
  }
  return sum_of_lanes(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

void rms_norm(const float* x, const float* weight, float eps, int64_t dim, float* out) {
  const float sum = sum_over(x, dim, [](Vec sum, Vec v, int) { return fma(v, v, sum); });
  const Vec scale = splat(1.0f / __builtin_sqrtf(sum / static_cast<float>(dim) + eps));
  for_vectors(dim, [&](int64_t at, int n) {
    const Vec scaled = mul(load_up_to(x + at, n), scale);
    store_up_to(out + at, weight != nullptr ? mul(scaled, load_up_to(weight + at, n)) : scaled, n);
  });
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t dim, float* out) {
  const auto count = static_cast<float>(dim);
  const Vec mean = splat(sum_over(x, dim, [](Vec sum, Vec v, int) { return add(sum, v); }) / count);
  const float squares = sum_over(x, dim, [&](Vec sum, Vec v, int n) {
    const Vec rest = first(n, sub(v, mean), splat(0.0f));
    return fma(rest, rest, sum);
  });
  const Vec scale = splat(1.0f / __builtin_sqrtf(squares / count + eps));
  for_vectors(dim, [&](int64_t at, int n) {
    const Vec rest = mul(sub(load_up_to(x + at, n), mean), scale);
    const Vec weighted = weight != nullptr ? mul(rest, load_up_to(weight + at, n)) : rest;
    store_up_to(out + at, bias != nullptr ? add(weighted, load_up_to(bias + at, n)) : weighted, n);
  });
}

float squares(const float* x, int64_t dim) {
  return sum_over(x, dim, [](Vec sum, Vec v, int) { return fma(v, v, sum); });
}

void gaussian_topk(float* x, float deviations, int64_t dim) {
  const Vec mean = splat(sum_over(x, dim, [](Vec sum, Vec v, int) { return add(sum, v); }) / static_cast<float>(dim));
  const float rest = sum_over(x, dim, [&](Vec sum, Vec v, int n) {
    const Vec from_mean = first(n, sub(v, mean), splat(0.0f));
    return fma(from_mean, from_mean, sum);
  });
  const float deviation = __builtin_sqrtf(rest / static_cast<float>(dim > 1 ? dim - 1 : 1));
  const Vec cut = add(mean, splat(deviation * deviations)), zero = splat(0.0f);
  for_vectors(dim, [&](int64_t at, int n) {
    const Vec over = sub(load_up_to(x + at, n), cut);
    store_up_to(x + at, if_less(over, zero, zero, over), n);
  });
}

void multiply(float* x, const float* y, int64_t count) {
  for_vectors(count,
              [&](int64_t at, int n) { store_up_to(x + at, mul(load_up_to(x + at, n), load_up_to(y + at, n)), n); });
}

void rotate(float* x, const float* own, const float* partner, int n_dims, RopeStyle style) {
  if (style == RopeStyle::kAdjacentPairs) {
    for_vectors(n_dims, [&](int64_t at, int n) {
      const Vec v = load_up_to(x + at, n);
      const Vec other = mul(swap_pairs(v), load_up_to(partner + at, n));
      store_up_to(x + at, fma(v, load_up_to(own + at, n), other), n);
    });
    return;
  }
  const int half = n_dims / 2;
  for_vectors(half, [&](int64_t at, int n) {
    const Vec low = load_up_to(x + at, n), high = load_up_to(x + half + at, n);
    const Vec new_low = fma(low, load_up_to(own + at, n), mul(high, load_up_to(partner + at, n)));
    const Vec new_high = fma(high, load_up_to(own + half + at, n), mul(low, load_up_to(partner + half + at, n)));
    store_up_to(x + at, new_low, n);
    store_up_to(x + half + at, new_high, n);
  });
}

void to_half(const float* x, uint16_t* out, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    if (n == kLanes) return store(out + at, load(x + at));
    uint16_t halves[kLanes];
    store(halves, load_first(x + at, n));
    for (int i = 0; i < n; ++i) out[at + i] = halves[i];
  });
}

// --- logits -------------------------------------------------------------------------------------------

inline Vec minus_infinity() { return splat(-__builtin_inff()); }
// Loads n logits. NaN, and lanes n and above, become minus infinity.
inline Vec load_logits(const float* x, int n) {
  const Vec v = n == kLanes ? load(x) : first(n, load_first(x, n), minus_infinity());
  return max(v, minus_infinity());
}

float logit_max(const float* x, int64_t count) {
  Vec best[4] = {minus_infinity(), minus_infinity(), minus_infinity(), minus_infinity()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    MONOLITH_UNROLL
    // If the new value is NaN, best[j] is kept.
    for (int j = 0; j < 4; ++j) best[j] = max(load(x + i + j * kLanes), best[j]);
  }
  for_vectors(count - i, [&](int64_t at, int n) { best[0] = max(load_logits(x + i + at, n), best[0]); });
  return max_of_lanes(max(max(best[0], best[1]), max(best[2], best[3])));
}

// Returns x - offset if that is a number, otherwise minus infinity, whose exponential is 0.
inline Vec shifted_logits(const float* x, int n, Vec offset) {
  return max(sub(load_logits(x, n), offset), minus_infinity());
}

double logit_sum_exp(const float* x, int64_t count, float offset) {
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = count - begin < kBlock ? count - begin : kBlock;
    Vec sum = splat(0.0f);
    for_vectors(size, [&](int64_t at, int n) {
      sum = add(sum, exponential(shifted_logits(x + begin + at, n, splat(offset))));
    });
    total += static_cast<double>(sum_of_lanes(sum));
  }
  return total;
}

void logit_exp(const float* x, int64_t count, float offset, float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    store_up_to(out + at, exponential(shifted_logits(x + at, n, splat(offset))), n);
  });
}

int64_t logit_argmax(const float* x, int64_t count) {
  if (count == 0) return -1;
  const float best = logit_max(x, count);
  if (best == -__builtin_inff()) return 0;
  for (int64_t i = 0; i < count; i += kLanes) {
    const int n = count - i < kLanes ? static_cast<int>(count - i) : kLanes;
    const uint32_t mask = equal_mask(load_logits(x + i, n), splat(best));
    if (mask != 0) return i + __builtin_ctz(mask);
  }
  return 0;
}
