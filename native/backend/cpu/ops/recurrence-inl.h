// Kernels for recurrent layers: the causal convolution and the gated delta rule. Compiled once per instruction set,
// inside an unnamed namespace, after ops/rows-inl.h.

// Starts from the bias and adds the taps from the oldest input to the newest with fused multiply-add. Rows are
// processed from last to first because each row takes the rows before it as input, so these must not be overwritten
// yet.
void convolve(const ConvolutionTile& tile) {
  const int kept = tile.conv_kernel_size - 1;
  float before[(kMaxTaps - 1) * kConvolutionChannels];  // A copy of the state, which may be overwritten.
  const auto bytes = static_cast<size_t>(tile.n_channels) * sizeof(float);
  for (int i = 0; i < kept; ++i) {
    float* const row = before + i * kConvolutionChannels;
    if (tile.from != nullptr)
      __builtin_memcpy(row, tile.from + i * tile.state_stride, bytes);
    else
      __builtin_memset(row, 0, bytes);
  }
  // Returns row t of the segment or, if t is negative, the corresponding row of the state before the segment.
  const auto input = [&](int64_t t) {
    return t < 0 ? before + (t + kept) * kConvolutionChannels : tile.x + t * tile.stride;
  };
  for (int i = 0; i < kept; ++i)
    __builtin_memcpy(tile.to + i * tile.state_stride, input(tile.n_rows - kept + i), bytes);
  for (int64_t t = tile.n_rows - 1; t >= 0; --t) {
    const float* taps[kMaxTaps];
    for (int j = 0; j < tile.conv_kernel_size; ++j) taps[j] = input(t - kept + j);
    float* const out = tile.x + t * tile.stride;
    for_vectors(tile.n_channels, [&](int64_t at, int n) {
      Vec sum = tile.bias != nullptr ? load_up_to(tile.bias + at, n) : splat(0.0f);
      for (int j = 0; j < tile.conv_kernel_size; ++j)
        sum = fma(load_up_to(taps[j] + at, n), load(tile.weight + j * kConvolutionChannels + at), sum);
      if (tile.silu) sum = div(sum, add(splat(1.0f), exponential(sub(splat(0.0f), sum))));
      store_up_to(out + at, sum, n);
    });
  }
}

// Squares are summed as in rms_norm(), but in two partial sums.
void l2_norm(float* x, float eps, float factor, int64_t dim) {
  Vec sums[2] = {splat(0.0f), splat(0.0f)};
  for_vectors(dim, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    Vec& sum = sums[at / kLanes % 2];
    sum = fma(v, v, sum);
  });
  const float length = __builtin_sqrtf(sum_of_lanes(add(sums[0], sums[1])));
  const Vec scale = splat(factor / (length > eps ? length : eps));
  for_vectors(dim, [&](int64_t at, int n) { store_up_to(x + at, mul(load_up_to(x + at, n), scale), n); });
}

// log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|. With s = t / (2 + t), which is at most 1/3, the logarithm is 2 (s
// + s^3 / 3 + s^5 / 5 ...). The omitted terms are less than 1e-9 times the result.
inline Vec softplus(Vec x) {
  const Vec zero = splat(0.0f), t = exponential(if_less(zero, x, sub(zero, x), x));
  const Vec s = div(t, add(t, splat(2.0f))), square = mul(s, s);
  Vec series = splat(2.0f / 17);
  MONOLITH_UNROLL
  for (int denominator = 15; denominator > 0; denominator -= 2)
    series = fma(series, square, splat(2.0f / static_cast<float>(denominator)));
  return fma(series, s, max(x, zero));
}

void decays(float* x, const float* bias, const float* rate, int rate_step, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec rates = rate_step == 0 ? splat(*rate) : load_up_to(rate + at, n);
    const Vec input = add(load_up_to(x + at, n), load_up_to(bias + at, n));
    store_up_to(x + at, exponential(mul(rates, softplus(input))), n);
  });
}

void sigmoid(float* x, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec denominator = add(splat(1.0f), exponential(sub(splat(0.0f), load_up_to(x + at, n))));
    store_up_to(x + at, div(splat(1.0f), denominator), n);
  });
}

// Number of column blocks per kernel call. Dot products over the dimensions of a key sum the even and the odd
// dimensions separately, each in order, and then add the two sums.
constexpr int kDeltaBlocks = kAccumulators >= 12 ? 2 : 1;

// Dot products of a row with the state before it: k S and q S for each column, where S has been decayed.
template <int N>
struct DeltaSums {
  Vec k[N][2], q[N][2];
};

// Each row needs only one pass over the state: while the state is being decayed and updated for one row, it is read for
// the next. With S' = decay S + k d^T and d = beta (v - k (decay S)), the result q S' is q (decay S) + (q k) d.
template <int N, bool kChannelDecay>
void delta_rows(const DeltaTile& tile) {
  const int dim = tile.key_dim;
  // With a decay per dimension, these are q and k of the next row times its decays.
  alignas(64) float decayed[2][kChannelDecay ? kMaxDeltaKeyDim : 1];
  const float* k_next = nullptr;
  const float* q_next = nullptr;
  const auto look_at = [&](int64_t row) {
    k_next = tile.k + row * tile.stride;
    q_next = tile.q + row * tile.stride;
    if constexpr (kChannelDecay) {
      const float* const decay = tile.decay + row * tile.decay_stride;
      for_vectors(dim, [&](int64_t at, int n) {
        const Vec d = load_up_to(decay + at, n);
        store_up_to(decayed[0] + at, mul(load_up_to(k_next + at, n), d), n);
        store_up_to(decayed[1] + at, mul(load_up_to(q_next + at, n), d), n);
      });
      k_next = decayed[0];
      q_next = decayed[1];
    }
  };
  DeltaSums<N> sums;
  const auto clear = [&] {
    MONOLITH_UNROLL
    for (int b = 0; b < N; ++b) sums.k[b][0] = sums.k[b][1] = sums.q[b][0] = sums.q[b][1] = splat(0.0f);
  };
  const auto block = [&](int b) { return tile.state + int64_t{b} * dim * kLanes; };
  // Adds the contribution of dimension i to the sums. `s` is the row of the state for that dimension.
  const auto count_in = [&](int i, int odd, int b, Vec s) {
    sums.k[b][odd] = fma(splat(k_next[i]), s, sums.k[b][odd]);
    sums.q[b][odd] = fma(splat(q_next[i]), s, sums.q[b][odd]);
  };

  look_at(0);
  clear();
  const auto read = [&](int i, int odd) {
    MONOLITH_UNROLL
    for (int b = 0; b < N; ++b) count_in(i, odd, b, load(block(b) + int64_t{i} * kLanes));
  };
  int i = 0;
  for (; i + 2 <= dim; i += 2) {
    read(i, 0);
    read(i + 1, 1);
  }
  if (i < dim) read(i, 0);

  for (int64_t row = 0; row < tile.n_rows; ++row) {
    const float* const k = tile.k + row * tile.stride;
    const float* const q = tile.q + row * tile.stride;
    const float* const v = tile.v + row * tile.stride;
    const float* const decay = tile.decay + row * tile.decay_stride;
    float* const out = tile.out + row * tile.out_stride;
    Vec products[2] = {splat(0.0f), splat(0.0f)};
    for_vectors(dim, [&](int64_t at, int n) {
      Vec& sum = products[at / kLanes % 2];
      sum = fma(load_up_to(q + at, n), load_up_to(k + at, n), sum);
    });
    const Vec qk = splat(sum_of_lanes(add(products[0], products[1])));
    const Vec beta = splat(tile.beta[row * tile.beta_stride]);
    [[maybe_unused]] const Vec head_decay = splat(*decay);
    Vec change[N];
    MONOLITH_UNROLL
    for (int b = 0; b < N; ++b) {
      const int first = b * kLanes, n = tile.n_columns - first < kLanes ? tile.n_columns - first : kLanes;
      Vec ks = add(sums.k[b][0], sums.k[b][1]), qs = add(sums.q[b][0], sums.q[b][1]);
      if constexpr (!kChannelDecay) {
        ks = mul(ks, head_decay);
        qs = mul(qs, head_decay);
      }
      change[b] = mul(beta, sub(load_up_to(v + first, n), ks));
      store_up_to(out + first, fma(qk, change[b], qs), n);
    }
    const auto update = [&](int at, int b) {
      float* const s = block(b) + int64_t{at} * kLanes;
      const Vec d = kChannelDecay ? splat(decay[at]) : head_decay;
      const Vec next = fma(splat(k[at]), change[b], mul(d, load(s)));
      store(s, next);
      return next;
    };
    if (row + 1 == tile.n_rows) {
      // During the last row, nothing else uses memory bandwidth, so the state that follows in memory is prefetched: the
      // state of this thread's next task.
      const float* const behind = block(N);
      for (int at = 0; at < dim; ++at) {
        MONOLITH_UNROLL
        for (int b = 0; b < N; ++b) {
          __builtin_prefetch(behind + (int64_t{b} * dim + at) * kLanes, 0, 2);
          update(at, b);
        }
      }
      return;
    }
    look_at(row + 1);
    clear();
    const auto carry_on = [&](int at, int odd) {
      MONOLITH_UNROLL
      for (int b = 0; b < N; ++b) count_in(at, odd, b, update(at, b));
    };
    int at = 0;
    for (; at + 2 <= dim; at += 2) {
      carry_on(at, 0);
      carry_on(at + 1, 1);
    }
    if (at < dim) carry_on(at, 0);
  }
}

void delta(const DeltaTile& tile, bool channel_decay) {
  if (kDeltaBlocks > 1 && tile.n_columns > kLanes)
    return channel_decay ? delta_rows<kDeltaBlocks, true>(tile) : delta_rows<kDeltaBlocks, false>(tile);
  return channel_decay ? delta_rows<1, true>(tile) : delta_rows<1, false>(tile);
}
