// The kernel for the state spaces of Mamba-2 and Mamba. Compiled once per instruction set, inside an unnamed
// namespace, after ops/recurrence-inl.h.

void softplus_with_bias(float* x, const float* bias, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    store_up_to(x + at, softplus(add(load_up_to(x + at, n), load_up_to(bias + at, n))), n);
  });
}

// A row's result sums even and odd dimensions of the state separately, each in order, and then adds the two sums. The
// skip term is the first term of the even sum.
template <int N, bool kChannelSteps>
void state_space_rows(const StateSpaceTile& tile) {
  const int dim = tile.state_dim;
  const auto block = [&](int b) { return tile.state + int64_t{b} * dim * kLanes; };
  const auto columns = [&](int b) {
    return tile.n_columns - b * kLanes < kLanes ? tile.n_columns - b * kLanes : kLanes;
  };
  for (int64_t row = 0; row < tile.n_rows; ++row) {
    const float* const x = tile.x + row * tile.stride;
    const float* const b_row = tile.b + row * tile.group_stride;
    const float* const c_row = tile.c + row * tile.group_stride;
    const float* const steps = tile.step + row * tile.step_stride;
    [[maybe_unused]] const Vec head_decay =
        kChannelSteps ? splat(0.0f) : exponential(mul(splat(*steps), splat(*tile.rate)));
    [[maybe_unused]] Vec step[N];
    Vec change[N], sums[N][2];
    MONOLITH_UNROLL
    for (int b = 0; b < N; ++b) {
      const int first = b * kLanes, n = columns(b);
      const Vec value = load_up_to(x + first, n);
      step[b] = kChannelSteps ? load_up_to(steps + first, n) : splat(*steps);
      change[b] = mul(value, step[b]);
      sums[b][0] = mul(value, kChannelSteps ? load_up_to(tile.skip + first, n) : splat(*tile.skip));
      sums[b][1] = splat(0.0f);
    }
    // While it processes the last row, the kernel prefetches the state that follows in memory: the state of this
    // thread's next task.
    const auto carry_on = [&]<bool kLast>(int i, int odd) __attribute__((always_inline)) {
      MONOLITH_UNROLL
      for (int b = 0; b < N; ++b) {
        float* const s = block(b) + int64_t{i} * kLanes;
        if constexpr (kLast) __builtin_prefetch(s + int64_t{N} * dim * kLanes, 0, 2);
        Vec decay = head_decay;
        if constexpr (kChannelSteps)
          decay = exponential(mul(step[b], load_up_to(tile.rate + i * tile.rate_stride + b * kLanes, columns(b))));
        const Vec next = fma(change[b], splat(b_row[i]), mul(decay, load(s)));
        store(s, next);
        sums[b][odd] = fma(next, splat(c_row[i]), sums[b][odd]);
      }
    };
    const auto all = [&]<bool kLast>() __attribute__((always_inline)) {
      int i = 0;
      for (; i + 2 <= dim; i += 2) {
        carry_on.template operator()<kLast>(i, 0);
        carry_on.template operator()<kLast>(i + 1, 1);
      }
      if (i < dim) carry_on.template operator()<kLast>(i, 0);
    };
    if (row + 1 == tile.n_rows)
      all.template operator()<true>();
    else
      all.template operator()<false>();
    float* const out = tile.out + row * tile.out_stride;
    MONOLITH_UNROLL
    for (int b = 0; b < N; ++b) {
      store_up_to(out + b * kLanes, add(sums[b][0], sums[b][1]), columns(b));
    }
  }
}

void state_space(const StateSpaceTile& tile) {
  if (kDeltaBlocks > 1 && tile.n_columns > kLanes)
    return tile.channel_steps ? state_space_rows<kDeltaBlocks, true>(tile)
                              : state_space_rows<kDeltaBlocks, false>(tile);
  return tile.channel_steps ? state_space_rows<1, true>(tile) : state_space_rows<1, false>(tile);
}
