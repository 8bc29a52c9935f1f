// GEMM kernel for few columns. A block of eight warps computes 8 / segments tiles of 16 rows, and each warp computes
// one segment of a tile. Weights go directly from memory to registers in fragment order, prefetched two blocks of k
// ahead (4 KB in flight per warp, half of that for FP8). Activations are read through the L1 cache. The sums of the
// segments are combined in shared memory.
#include "backend/cuda/dense/kernels.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = kFewWarps * kWarp;
constexpr int kSteps = kDenseBlockK / 16;

template <int kFragments>
struct Sums {
  float of[kFewWarps][kFragments * 4][kWarp];
};

// The fragments of both operands for one block of k.
template <DenseKind kKind, int kFragments>
struct Operands {
  Words4 a[kBlockPieces<kKind>];
  uint32_t b[kFragments][kSteps][2];
};

template <DenseKind kKind, int kFragments>
MONOLITH_DEVICE void load_weights(Operands<kKind, kFragments>& operands, const Words4* weight, int block) {
  constexpr int kPieces = kBlockPieces<kKind>;
  MONOLITH_UNROLL
  for (int i = 0; i < kPieces; ++i) operands.a[i] = load_once(weight + (block * kPieces + i) * kWarp);
}
template <DenseKind kKind, int kFragments>
MONOLITH_DEVICE void load_inputs(Operands<kKind, kFragments>& operands, const uint32_t* x, int64_t x_block, int x_next,
                                 int block) {
  const uint32_t* const words = x + block * x_block;
  MONOLITH_UNROLL
  for (int n = 0; n < kFragments; ++n) MONOLITH_UNROLL
  for (int step = 0; step < kSteps; ++step) MONOLITH_UNROLL
  for (int half = 0; half < 2; ++half) operands.b[n][step][half] = words[n * x_next + (step * 2 + half) * 32];
}

template <DenseKind kKind, int kFragments>
MONOLITH_DEVICE void multiply(float (&c)[kFragments][4], const Operands<kKind, kFragments>& operands) {
  MONOLITH_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const Words4 words = fragment_of<kKind>(operands.a, step);
    const uint32_t a[4] = {words.x, words.y, words.z, words.w};
    MONOLITH_UNROLL
    for (int n = 0; n < kFragments; ++n) mma_dense<kKind>(c[n], a, operands.b[n][step]);
  }
}

template <DenseKind kKind, int kFragments>
__global__ void __launch_bounds__(kThreads) gemv_kernel(const __grid_constant__ DenseLaunch launch) {
  let_next_start();
  if (launch.tiles) wait_for_inputs();  // The tile list, which selects a block's weights, is an input too.
  auto& shared = shared_memory<Sums<kFragments>>();
  const DenseUnit unit = find_unit<kKind>(launch, 8 * kFragments);
  if (unit.empty) return;
  const DenseTarget& target = *unit.target;
  const int segments = target.segments, tiles = kFewWarps / segments;
  const int warp = warp_id(), lane = lane_id();
  const int tile = unit.row_tile * tiles + warp / segments, segment = warp % segments;
  float c[kFragments][4] = {};
  if (tile * kDenseTileRows < target.rows) {
    const int begin = segment_begin(launch, target, segment), end = segment_begin(launch, target, segment + 1);
    const int64_t x_block = int64_t{launch.column_groups} * 256;  // Stride in words.
    const Words4* const weight =
        unit.weight + (int64_t{tile} * launch.k_blocks + begin) * (kBlockPieces<kKind> * kWarp) + lane;
    const int group = unit.first_column / 8;
    const auto* const x = reinterpret_cast<const uint32_t*>(launch.x) + begin * x_block + group * 256 + lane;
    // The second fragment may start beyond the last column of the activations. It then repeats the first fragment, and
    // its sums are discarded.
    const int x_next = group + 1 < launch.column_groups ? 256 : 0;
    const int n = end - begin;
    Operands<kKind, kFragments> even, odd;
    load_weights(even, weight, 0);
    if (n > 1) load_weights(odd, weight, 1);
    wait_for_inputs();
    const auto load = [&](Operands<kKind, kFragments>& operands, int block) {
      load_weights(operands, weight, block);
      load_inputs(operands, x, x_block, x_next, block);
    };
    load_inputs(even, x, x_block, x_next, 0);
    if (n > 1) load_inputs(odd, x, x_block, x_next, 1);
    for (int block = 0; block < n; block += 2) {
      multiply<kKind>(c, even);
      if (block + 2 < n) load(even, block + 2);
      if (block + 1 < n) multiply<kKind>(c, odd);
      if (block + 3 < n) load(odd, block + 3);
    }
  }
  wait_for_inputs();  // Warps without a tile must wait too.
  MONOLITH_UNROLL
  for (int i = 0; i < kFragments * 4; ++i) shared.of[warp][i][lane] = c[i / 4][i % 4];
  __syncthreads();
  for (int item = warp; item < tiles * kFragments * 4; item += kFewWarps) {
    const int of_tile = item / (kFragments * 4), i = item % (kFragments * 4);
    const int row = (unit.row_tile * tiles + of_tile) * kDenseTileRows + row_of(i), within = column_of(i);
    if (row >= target.rows || within >= unit.n_columns) continue;
    const int column = unit.first_column + within;
    float* const to = target.out + column * target.out_stride + row;
    float value = dense_begin(unit, to, row);
    const float scale = dense_scale<kKind>(launch, unit, row, column);
    for (int s = 0; s < segments; ++s) value = fmaf(shared.of[of_tile * segments + s][i][lane], scale, value);
    *to = value;
  }
}

template <int kFragments>
void launch_few(Runtime& runtime, DenseKind kind, const DenseLaunch& work) {
  launch(runtime,
         kind == DenseKind::kBf16  ? gemv_kernel<DenseKind::kBf16, kFragments>
         : kind == DenseKind::kF16 ? gemv_kernel<DenseKind::kF16, kFragments>
                                   : gemv_kernel<DenseKind::kFp8, kFragments>,
         dim3{static_cast<unsigned>(work.row_units * work.column_tiles), 1, 1}, kThreads, sizeof(Sums<kFragments>),
         work);
}

}  // namespace

void launch_dense_few(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& work) {
  if (plan.tile_columns == 8)
    launch_few<1>(runtime, kind, work);
  else
    launch_few<2>(runtime, kind, work);
}

}  // namespace monolith::cuda
