// The kernels for RWKV: token shift and time mixing. Compiled once per instruction set, inside an unnamed namespace,
// after ops/recurrence-inl.h.

void subtract(const float* previous, const float* x, int64_t count, float* difference) {
  for_vectors(count, [&](int64_t at, int n) {
    store_up_to(difference + at, sub(load_up_to(previous + at, n), load_up_to(x + at, n)), n);
  });
}

void shifted_input(const float* x, const float* difference, const float* mu, const float* shift, int64_t count,
                   float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    Vec factor = load_up_to(mu + at, n);
    if (shift != nullptr) factor = add(factor, load_up_to(shift + at, n));
    store_up_to(out + at, fma(load_up_to(difference + at, n), factor, load_up_to(x + at, n)), n);
  });
}

inline Vec logistic(Vec x) { return div(splat(1.0f), add(splat(1.0f), exponential(sub(splat(0.0f), x)))); }

// Values computed per row, for one head.
struct TimeMixRow {
  alignas(64) float w[kMaxTimeMixDim], k[kMaxTimeMixDim], v[kMaxTimeMixDim];
  // RWKV 7: -n and a n.
  alignas(64) float minus_n[kMaxTimeMixDim], removed[kMaxTimeMixDim];
  float bonus;  // r . (bonus k)
};

// Prepares row `row`. Each sum over the head has one partial sum per lane.
template <bool kDelta>
void prepare_time_mix(const TimeMixTile& tile, int64_t row, TimeMixRow& to) {
  const int64_t at_row = row * tile.stride;
  const TimeMixInputs& from = tile.inputs;
  Vec bonus = splat(0.0f), squares = splat(0.0f);
  for (int at = 0; at < tile.head_dim; at += kLanes) {
    const auto input = [&](const float* rows) { return load(rows + at_row + at); };
    const Vec decay = add(input(from.decay), load(tile.decay_bias + at));
    Vec k = input(from.k), v = input(from.v);
    if constexpr (kDelta) {
      store(to.w + at, exponential(mul(splat(-0.606531f), logistic(decay))));
      const Vec rate = logistic(add(input(from.rate), load(tile.rate_bias + at)));
      const Vec n = mul(k, load(tile.key_scale + at));
      squares = fma(n, n, squares);
      store(to.minus_n + at, n);
      store(to.removed + at, rate);
      k = fma(mul(k, sub(rate, splat(1.0f))), load(tile.key_rate + at), k);
      if (from.first_v != nullptr) {
        const Vec share = logistic(add(input(from.value_mix), load(tile.value_bias + at)));
        v = fma(sub(input(from.first_v), v), share, v);
      }
    } else {
      store(to.w + at, exponential(sub(splat(0.0f), exponential(decay))));
    }
    store(to.k + at, k);
    store(to.v + at, v);
    bonus = fma(mul(input(from.r), load(tile.bonus + at)), k, bonus);
  }
  to.bonus = sum_of_lanes(bonus);
  if constexpr (kDelta) {
    constexpr float kMinLength = 1e-12f;
    const float length = __builtin_sqrtf(sum_of_lanes(squares));
    const Vec scale = splat(1.0f / (length > kMinLength ? length : kMinLength));
    for (int at = 0; at < tile.head_dim; at += kLanes) {
      const Vec n = mul(load(to.minus_n + at), scale);
      store(to.removed + at, mul(n, load(to.removed + at)));
      store(to.minus_n + at, sub(splat(0.0f), n));
    }
  }
}

// Updates N blocks of the state and computes their part of S r. For RWKV 7, `removals` contains S (-n) of this row and
// is overwritten with that of the next row, so that a row needs only one pass over the state. Sums are over the columns
// of S, in order.
template <bool kDelta, int N>
void step_time_mix(const TimeMixTile& tile, const float* r, const TimeMixRow& own, const TimeMixRow* next, int first,
                   float* removals, float* out) {
  const int dim = tile.head_dim;
  float* const state = tile.state + int64_t{first} * dim * kLanes;
  Vec v[N], sums[N], removal[N], seen[N];
  MONOLITH_UNROLL
  for (int b = 0; b < N; ++b) {
    v[b] = load(own.v + (first + b) * kLanes);
    if constexpr (kDelta) removal[b] = load(removals + (first + b) * kLanes);
    sums[b] = seen[b] = splat(0.0f);
  }
  const auto pass = [&]<bool kLast>() __attribute__((always_inline)) {
    for (int i = 0; i < dim; ++i) {
      const Vec w = splat(own.w[i]), k = splat(own.k[i]), ri = splat(r[i]);
      MONOLITH_UNROLL
      for (int b = 0; b < N; ++b) {
        float* const at = state + (int64_t{b} * dim + i) * kLanes;
        const Vec before = load(at);
        Vec s = fma(k, v[b], mul(before, w));
        if constexpr (kDelta) s = fma(splat(own.removed[i]), removal[b], s);
        store(at, s);
        sums[b] = fma(ri, kDelta ? s : before, sums[b]);
        if constexpr (kDelta && !kLast) seen[b] = fma(splat(next->minus_n[i]), s, seen[b]);
      }
    }
  };
  if (kDelta && next != nullptr)
    pass.template operator()<false>();
  else
    pass.template operator()<true>();
  MONOLITH_UNROLL
  for (int b = 0; b < N; ++b) {
    if constexpr (!kDelta) sums[b] = fma(splat(own.bonus), v[b], sums[b]);
    store(out + (first + b) * kLanes, sums[b]);
    if constexpr (kDelta) store(removals + (first + b) * kLanes, seen[b]);
  }
}

// Normalizes a row's result and applies the gate.
template <bool kDelta>
void finish_time_mix(const TimeMixTile& tile, int64_t row, const TimeMixRow& own, const float* result) {
  const int dim = tile.head_dim;
  Vec sum = splat(0.0f), squares = splat(0.0f);
  for (int at = 0; at < dim; at += kLanes) sum = add(sum, load(result + at));
  const Vec mean = splat(sum_of_lanes(sum) / static_cast<float>(dim));
  for (int at = 0; at < dim; at += kLanes) {
    const Vec distance = sub(load(result + at), mean);
    squares = fma(distance, distance, squares);
  }
  const float variance = sum_of_lanes(squares) / static_cast<float>(dim);
  const Vec scale = splat(1.0f / __builtin_sqrtf(variance + tile.norm_eps));
  for (int at = 0; at < dim; at += kLanes) {
    const Vec normed = mul(sub(load(result + at), mean), scale);
    Vec y = fma(normed, load(tile.norm_weight + at), load(tile.norm_bias + at));
    Vec gate = load(tile.inputs.gate + row * tile.stride + at);
    if constexpr (kDelta)
      y = fma(splat(own.bonus), load(own.v + at), y);
    else
      gate = mul(gate, logistic(gate));
    store(tile.out + row * tile.stride + at, mul(y, gate));
  }
}

template <bool kDelta>
void time_mix_rows(const TimeMixTile& tile) {
  constexpr int kTogether = kDeltaBlocks;
  const int dim = tile.head_dim, n_blocks = dim / kLanes;
  TimeMixRow rows[2];
  alignas(64) float removals[kMaxTimeMixDim], result[kMaxTimeMixDim];
  prepare_time_mix<kDelta>(tile, 0, rows[0]);
  for (int b = 0; kDelta && b < n_blocks; ++b) {
    Vec seen = splat(0.0f);
    for (int i = 0; i < dim; ++i)
      seen = fma(splat(rows[0].minus_n[i]), load(tile.state + (int64_t{b} * dim + i) * kLanes), seen);
    store(removals + b * kLanes, seen);
  }
  for (int64_t row = 0; row < tile.n_rows; ++row) {
    const TimeMixRow& own = rows[row % 2];
    TimeMixRow* const next = row + 1 < tile.n_rows ? &rows[(row + 1) % 2] : nullptr;
    const float* const r = tile.inputs.r + row * tile.stride;
    if (next != nullptr) prepare_time_mix<kDelta>(tile, row + 1, *next);
    int b = 0;
    for (; b + kTogether <= n_blocks; b += kTogether)
      step_time_mix<kDelta, kTogether>(tile, r, own, next, b, removals, result);
    for (; b < n_blocks; ++b) step_time_mix<kDelta, 1>(tile, r, own, next, b, removals, result);
    finish_time_mix<kDelta>(tile, row, own, result);
  }
}

void time_mix(const TimeMixTile& tile, bool delta) {
  return delta ? time_mix_rows<true>(tile) : time_mix_rows<false>(tile);
}
