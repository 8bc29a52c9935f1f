// LoRA kernels that use vectors of 16 floats. This file is compiled once per instruction set, inside an unnamed
// namespace, after rows-inl.h. The order of additions for a row does not depend on the other rows in the call:
//
//   t = scale * (A x)  for each rank: lane i % 16 accumulates a[i] * x[i] with fused multiply-add, i ascending;
//                      sum_of_lanes() adds the lanes; the sum is multiplied by the scale
//   out += B t         for each output: accumulates b[j] * t[j] from 0 with fused multiply-add, j ascending; the sum is
//                      added to the output

// Number of rows of x that a kernel processes together, so that it reads the weights only once for all of them.
constexpr int kAdapterRows = kAccumulators >= 4 * kAdapterRanks ? 4 : 1;

template <int R, int N, typename Weight>
inline void adapter_dots(const AdapterDown& tile, const Weight* a, int first_row) {
  const float* x[N];
  for (int n = 0; n < N; ++n) x[n] = tile.x + int64_t{tile.rows[first_row + n]} * tile.cols;
  Vec sums[N][R];
  MONOLITH_UNROLL
  for (int n = 0; n < N; ++n) {
    MONOLITH_UNROLL
    for (int r = 0; r < R; ++r) sums[n][r] = splat(0.0f);
  }
  const auto step = [&](int64_t at, int lanes) {
    Vec weights[R];
    MONOLITH_UNROLL
    for (int r = 0; r < R; ++r) weights[r] = load(a + at * R + r * kLanes);
    MONOLITH_UNROLL
    for (int n = 0; n < N; ++n) {
      const Vec values = load_up_to(x[n] + at, lanes);
      MONOLITH_UNROLL
      for (int r = 0; r < R; ++r) sums[n][r] = fma(weights[r], values, sums[n][r]);
    }
  };
  int64_t at = 0;
  for (; at + kLanes <= tile.cols; at += kLanes) step(at, kLanes);
  if (at < tile.cols) step(at, static_cast<int>(tile.cols - at));
  for (int n = 0; n < N; ++n)
    for (int r = 0; r < R; ++r) tile.out[(first_row + n) * tile.out_stride + r] = sum_of_lanes(sums[n][r]) * tile.scale;
}

template <int R, typename Weight>
inline void adapter_dots_of_rows(const AdapterDown& tile, const Weight* a) {
  int row = 0;
  for (; row + kAdapterRows <= tile.n_rows; row += kAdapterRows) adapter_dots<R, kAdapterRows>(tile, a, row);
  for (; row < tile.n_rows; ++row) adapter_dots<R, 1>(tile, a, row);
}

template <typename Weight>
inline void adapter_down_of(const AdapterDown& tile, const Weight* a) {
  switch (tile.n_ranks) {
    case 1: return adapter_dots_of_rows<1>(tile, a);
    case 2: return adapter_dots_of_rows<2>(tile, a);
    case 3: return adapter_dots_of_rows<3>(tile, a);
    default: return adapter_dots_of_rows<4>(tile, a);
  }
}

void adapter_down(const AdapterDown& tile) {
  if (tile.halves)
    adapter_down_of(tile, static_cast<const uint16_t*>(tile.a));
  else
    adapter_down_of(tile, static_cast<const float*>(tile.a));
}

// Computes B blocks of kLanes outputs for each of N rows.
template <int B, int N, typename Weight>
inline void adapter_sums(const AdapterUp& tile, const Weight* b, int64_t block, int first_row) {
  Vec sums[B][N];
  MONOLITH_UNROLL
  for (int i = 0; i < B; ++i) {
    MONOLITH_UNROLL
    for (int n = 0; n < N; ++n) sums[i][n] = splat(0.0f);
  }
  const Weight* const from = b + block * tile.rank * kLanes;
  const float* const t = tile.t + int64_t{first_row} * tile.rank;
  for (int j = 0; j < tile.rank; ++j) {
    Vec factors[N];
    MONOLITH_UNROLL
    for (int n = 0; n < N; ++n) factors[n] = splat(t[n * tile.rank + j]);
    MONOLITH_UNROLL
    for (int i = 0; i < B; ++i) {
      const Vec weights = load(from + (int64_t{i} * tile.rank + j) * kLanes);
      MONOLITH_UNROLL
      for (int n = 0; n < N; ++n) sums[i][n] = fma(weights, factors[n], sums[i][n]);
    }
  }
  for (int n = 0; n < N; ++n) {
    float* const out = tile.out + int64_t{tile.rows[first_row + n]} * tile.out_stride;
    for (int i = 0; i < B; ++i) {
      const int64_t at = (block + i) * kLanes;
      const int lanes = tile.count - at < kLanes ? static_cast<int>(tile.count - at) : kLanes;
      store_up_to(out + at, add(load_up_to(out + at, lanes), sums[i][n]), lanes);
    }
  }
}

template <int N, typename Weight>
inline void adapter_sums_of_rows(const AdapterUp& tile, const Weight* b, int first_row) {
  const int64_t n_blocks = (tile.count + kLanes - 1) / kLanes;
  int64_t block = 0;
  for (; block + 4 <= n_blocks; block += 4) adapter_sums<4, N>(tile, b, block, first_row);
  for (; block < n_blocks; ++block) adapter_sums<1, N>(tile, b, block, first_row);
}

template <typename Weight>
inline void adapter_up_of(const AdapterUp& tile, const Weight* b) {
  int row = 0;
  for (; row + kAdapterRows <= tile.n_rows; row += kAdapterRows) adapter_sums_of_rows<kAdapterRows>(tile, b, row);
  for (; row < tile.n_rows; ++row) adapter_sums_of_rows<1>(tile, b, row);
}

void adapter_up(const AdapterUp& tile) {
  if (tile.halves)
    adapter_up_of(tile, static_cast<const uint16_t*>(tile.b));
  else
    adapter_up_of(tile, static_cast<const float*>(tile.b));
}
