// The kernel for the Mamba-2 state space. Compiled once per instruction set, inside an unnamed namespace, after
// ops/recurrence-inl.h.

void softplus_with_bias(float* x, const float* bias, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    store_up_to(x + at, softplus(add(load_up_to(x + at, n), load_up_to(bias + at, n))), n);
  });
}

// A row's result sums even and odd dimensions of the state separately, each in order, and then adds the two sums. The
// skip term is the first term of the even sum.
template <int N>
void state_space_rows(const StateSpaceTile& tile) {
  const int dim = tile.state_dim;
  const auto block = [&](int b) { return tile.state + int64_t{b} * dim * kLanes; };
  for (int64_t row = 0; row < tile.n_rows; ++row) {
    const float* const x = tile.x + row * tile.stride;
    const float* const b_row = tile.b + row * tile.stride;
    const float* const c_row = tile.c + row * tile.stride;
    const Vec step = splat(tile.step[row * tile.step_stride]);
    const Vec decay = exponential(mul(step, splat(tile.rate)));
    Vec change[N], sums[N][2];
    MONOLITH_UNROLL
    for (int b = 0; b < N; ++b) {
      const int first = b * kLanes, n = tile.n_columns - first < kLanes ? tile.n_columns - first : kLanes;
      const Vec value = load_up_to(x + first, n);
      change[b] = mul(value, step);
      sums[b][0] = mul(value, splat(tile.skip));
      sums[b][1] = splat(0.0f);
    }
    // While it processes the last row, the kernel prefetches the state that follows in memory: the state of this
    // thread's next task.
    const auto carry_on = [&]<bool kLast>(int i, int odd) __attribute__((always_inline)) {
      MONOLITH_UNROLL
      for (int b = 0; b < N; ++b) {
        float* const s = block(b) + int64_t{i} * kLanes;
        if constexpr (kLast) __builtin_prefetch(s + int64_t{N} * dim * kLanes, 0, 2);
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
      const int first = b * kLanes, n = tile.n_columns - first < kLanes ? tile.n_columns - first : kLanes;
      store_up_to(out + first, add(sums[b][0], sums[b][1]), n);
    }
  }
}

void state_space(const StateSpaceTile& tile) {
  if (kDeltaBlocks > 1 && tile.n_columns > kLanes) return state_space_rows<kDeltaBlocks>(tile);
  state_space_rows<1>(tile);
}
