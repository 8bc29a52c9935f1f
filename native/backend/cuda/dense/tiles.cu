// GEMM kernel for many columns with mma.sync. A block of eight warps computes a tile of 128 rows and 32 or 128 columns;
// each warp computes 32 rows and half of the columns. Both operands go through shared memory by asynchronous copies,
// with 32 values of k per stage.
#include "backend/cuda/dense/kernels.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256, kRows = 128, kStages = 4;
constexpr int kStageK = 32, kSteps = kStageK / 16;
constexpr int kStagesPerBlock = kDenseBlockK / kStageK;
constexpr int kTiles = kRows / kDenseTileRows;

// Number of 16-byte groups of weights per lane in a stage.
template <DenseKind kKind>
constexpr int kStagePieces = kBlockPieces<kKind> / kStagesPerBlock;

template <DenseKind kKind, int kColumns>
struct Shared {
  Words4 a[kStages][kTiles][kStagePieces<kKind>][kWarp];
  Words4 b[kStages][kColumns / 8][kStageK / 8][8];  // Core matrices.
  int last;
};

// Numbers of contiguous 16-byte groups in a stage: for one tile of rows, and for one group of 8 columns.
template <DenseKind kKind>
constexpr int kTilePieces = kStagePieces<kKind>* kWarp;
template <DenseKind kKind>
constexpr int kTilesAtOnce = kThreads / kTilePieces<kKind>;
constexpr int kGroupPieces = kStageK, kGroupsAtOnce = kThreads / kGroupPieces;

// A thread's copy sources in stage 0: its first row tile and column group, and the number of valid tiles and groups
// from there on.
struct Feed {
  const Words4* a;
  int32_t b;  // Offset in x, in units of 16 bytes.
  int32_t tiles, groups;
};

template <DenseKind kKind>
MONOLITH_DEVICE Feed find_feed(const DenseLaunch& launch, const DenseUnit& unit) {
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int kPieces = kTilePieces<kKind>;
  const int tile = unit.row_tile * kTiles + thread / kPieces, group = unit.first_column / 8 + thread / kGroupPieces;
  return {unit.weight + int64_t{tile} * launch.k_blocks * (kBlockPieces<kKind> * kWarp) + thread % kPieces,
          group * 64 + thread % kGroupPieces, (unit.target->rows + kDenseTileRows - 1) / kDenseTileRows - tile,
          launch.column_groups - group};
}

template <DenseKind kKind, int kColumns>
MONOLITH_DEVICE void begin_weights(Shared<kKind, kColumns>& shared, const DenseLaunch& launch, const Feed& feed,
                                   int number) {
  const int stage = number % kStages, thread = static_cast<int>(threadIdx.x);
  constexpr int kAtOnce = kTilesAtOnce<kKind>;
  MONOLITH_UNROLL
  for (int i = 0; i < kTiles / kAtOnce; ++i)
    copy_async<Source::kConstant>(&shared.a[stage][0][0][0] + i * kThreads + thread,
                                  feed.a + int64_t{i} * kAtOnce * launch.k_blocks * (kBlockPieces<kKind> * kWarp) +
                                      int64_t{number} * kTilePieces<kKind>,
                                  i * kAtOnce < feed.tiles);
}

template <DenseKind kKind, int kColumns>
MONOLITH_DEVICE void begin_inputs(Shared<kKind, kColumns>& shared, const DenseLaunch& launch, const Feed& feed,
                                  int number) {
  const int stage = number % kStages, thread = static_cast<int>(threadIdx.x);
  constexpr int kGroups = kColumns / 8;
  const Words4* const b = reinterpret_cast<const Words4*>(launch.x) + feed.b +
                          int64_t{number / kStagesPerBlock} * launch.column_groups * 64 +
                          number % kStagesPerBlock * kGroupPieces;
  MONOLITH_UNROLL
  for (int i = 0; i < (kGroups + kGroupsAtOnce - 1) / kGroupsAtOnce; ++i)
    if (kGroups % kGroupsAtOnce == 0 || thread < kGroups * kGroupPieces)
      copy_async(&shared.b[stage][0][0][0] + i * kThreads + thread, b + i * kGroupsAtOnce * 64,
                 i * kGroupsAtOnce < feed.groups);
}

template <DenseKind kKind, int kColumns>
__global__ void __launch_bounds__(kThreads, 2) tiles_kernel(const __grid_constant__ DenseLaunch launch) {
  let_next_start();
  if (launch.tiles) wait_for_inputs();   // The tile list, which selects a block's weights, is an input too.
  constexpr int kQuads = kColumns / 16;  // Fragments per warp: half of the columns.
  auto& shared = shared_memory<Shared<kKind, kColumns>>();
  const DenseUnit unit = find_unit<kKind>(launch, kColumns);
  if (unit.empty) return;
  const int warp = warp_id(), lane = lane_id();
  // The first tile of rows and the first group of columns that the warp computes.
  const int warp_rows = warp % 4 * 2, warp_group = warp / 4 * kQuads;
  const int first_row = unit.row_tile * kRows + warp_rows * kDenseTileRows;

  const Feed feed = find_feed<kKind>(launch, unit);

  float c[2][kQuads][4] = {};
  int segment = unit.first_segment;
  const int begin = segment_begin(launch, *unit.target, segment) * kStagesPerBlock;
  const int end = segment_begin(launch, *unit.target, unit.last_segment) * kStagesPerBlock;
  int segment_end = segment_begin(launch, *unit.target, segment + 1) * kStagesPerBlock;
  for (int ahead = 0; ahead < kStages - 1; ++ahead)
    if (begin + ahead < end) begin_weights(shared, launch, feed, begin + ahead);
  wait_for_inputs();
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    if (begin + ahead < end) begin_inputs(shared, launch, feed, begin + ahead);
    copies_commit();  // The first copy group includes all prefetched weights.
  }
  for (int number = begin; number < end; ++number) {
    copies_wait<kStages - 2>();
    __syncthreads();
    if (number + kStages - 1 < end) {
      begin_weights(shared, launch, feed, number + kStages - 1);
      begin_inputs(shared, launch, feed, number + kStages - 1);
    }
    copies_commit();
    const int stage = number % kStages;
    MONOLITH_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      uint32_t a[2][4];
      MONOLITH_UNROLL
      for (int m = 0; m < 2; ++m) {
        Words4 pieces[kStagePieces<kKind>];  // The compiler removes reads of groups that this step does not use.
        MONOLITH_UNROLL
        for (int i = 0; i < kStagePieces<kKind>; ++i) pieces[i] = shared.a[stage][warp_rows + m][i][lane];
        const Words4 words = fragment_of<kKind>(pieces, step);
        a[m][0] = words.x;
        a[m][1] = words.y;
        a[m][2] = words.z;
        a[m][3] = words.w;
      }
      MONOLITH_UNROLL
      for (int n = 0; n < kQuads; n += 2) {
        uint32_t pair[4];
        load_matrices(pair, &shared.b[stage][warp_group + n + lane / 16][step * 2 + lane / 8 % 2][lane % 8]);
        const uint32_t low[2] = {pair[0], pair[1]}, high[2] = {pair[2], pair[3]};
        MONOLITH_UNROLL
        for (int m = 0; m < 2; ++m) {
          mma_dense<kKind>(c[m][n], a[m], low);
          mma_dense<kKind>(c[m][n + 1], a[m], high);
        }
      }
    }
    if (number + 1 == segment_end && !launch.split) {
      MONOLITH_UNROLL
      for (int m = 0; m < 2; ++m) {
        add_segment<kKind, kSomeAtOnce>(launch, unit, segment, first_row + m * kDenseTileRows, warp_group * 8, c[m]);
        MONOLITH_UNROLL
        for (int i = 0; i < kQuads * 4; ++i) c[m][i / 4][i % 4] = 0;
      }
      ++segment;
      if (segment < unit.last_segment) segment_end = segment_begin(launch, *unit.target, segment + 1) * kStagesPerBlock;
    }
  }
  if (!launch.split) return;
  const int thread = static_cast<int>(threadIdx.x);
  Floats4* const left = left_sums(launch, unit.number, 2 * kQuads, kThreads, thread);
  MONOLITH_UNROLL
  for (int i = 0; i < 2 * kQuads; ++i) {
    const float(&sums)[4] = c[i / kQuads][i % kQuads];
    left[i * kThreads] = {sums[0], sums[1], sums[2], sums[3]};
  }
  if (!is_last_of_tile(launch, unit, shared.last)) return;
  const int64_t step = int64_t{unit.stride} * 2 * kQuads * kThreads;
  for (int m = 0; m < 2; ++m)
    add_left_sums<kKind, kSomeAtOnce, kQuads>(launch, unit, first_row + m * kDenseTileRows, warp_group * 8,
                                              left - unit.first_segment * step + m * kQuads * kThreads, step, kThreads);
}

template <DenseKind kKind, int kColumns>
void launch_kind(Runtime& runtime, const DenseLaunch& work) {
  launch(runtime, tiles_kernel<kKind, kColumns>, dim3{static_cast<unsigned>(work.row_units * work.column_tiles), 1, 1},
         kThreads, sizeof(Shared<kKind, kColumns>), work);
}

template <int kColumns>
void launch_tiles(Runtime& runtime, DenseKind kind, const DenseLaunch& work) {
  switch (kind) {
    case DenseKind::kBf16: return launch_kind<DenseKind::kBf16, kColumns>(runtime, work);
    case DenseKind::kF16: return launch_kind<DenseKind::kF16, kColumns>(runtime, work);
    case DenseKind::kFp8: return launch_kind<DenseKind::kFp8, kColumns>(runtime, work);
  }
}

}  // namespace

void launch_dense_tiles(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& work) {
  if (plan.tile_columns == 32)
    launch_tiles<32>(runtime, kind, work);
  else
    launch_tiles<128>(runtime, kind, work);
}

}  // namespace monolith::cuda
