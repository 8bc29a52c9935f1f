// Products on Hopper: a producer fills a ring of stages in shared memory with bulk copies, 64 k each of weights and
// activations; every group of four warps takes its 64 rows of weights from there to registers and multiplies them with
// all columns of the tile (wgmma). Few columns are the same kernel with a narrow tile: what then counts is that 64 to
// 90 KB of weights are always under way to each block, with two blocks on a multiprocessor. From 9 columns on, tiles
// are of 128 rows: inputs then cost half as much of what the L2 cache can give as with 64, beside the weights'
// 4.3 TB/s 2.1 TB/s at 64 columns and not 4.3.
#include "backend/cuda/dense_kernels.h"
#include "backend/cuda/device/wgmma.h"

namespace monolith::cuda {
namespace {

constexpr int kSteps = kDenseBlockK / 16;
constexpr int kGroupBytes = 8 * kDenseBlockK * 2;   // of 8 columns of a stage

// How wide a kernel is.
template <int kTheGroups, int kTheColumns, int kTheStages, int kTheBlocks>
struct Width {
  static constexpr int kGroups = kTheGroups;       // of four warps, each with 64 rows
  static constexpr int kColumns = kTheColumns;
  static constexpr int kStages = kTheStages;
  static constexpr int kBlocks = kTheBlocks;       // on a multiprocessor at once
  static constexpr int kTiles = kGroups * 4;       // of 16 rows
  static constexpr int kConsumers = kGroups * kWarpgroup;
  static constexpr int kQuads = kColumns / 8;
  // Two groups with sums of 256 columns need more registers than threads have at the start: the producer is a whole
  // group of warps, which gives its own up.
  static constexpr bool kMovesRegisters = kColumns == 256;
  // Two blocks of two groups leave a thread few registers.
  static constexpr bool kCrowded = kGroups * kBlocks > 2;
  static constexpr int kAtOnce = kCrowded ? 8 : kManyAtOnce, kLeftAtOnce = kCrowded ? 16 : kManyAtOnce;
  static constexpr int kThreads = kConsumers + (kMovesRegisters ? kWarpgroup : kWarp);
};

template <DenseKind kKind, typename W>
struct Ring {
  Words4 a[W::kStages][W::kTiles][kBlockPieces<kKind>][kWarp];
  unsigned char b[W::kStages][W::kQuads][kGroupBytes];
  Barrier full[W::kStages], empty[W::kStages];
  int last;
};

#if MONOLITH_WGMMA

// Of 16 rows of a stage, in pieces of 16 bytes.
template <DenseKind kKind>
constexpr int kTilePieces = kBlockPieces<kKind> * kWarp;
constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;   // where they move

// By one warp: all stages of the unit, in order. Weights are there before the inputs are: as many stages as there are
// begin with them, and get their inputs when these are computed.
template <DenseKind kKind, typename W>
MONOLITH_DEVICE void produce(Ring<kKind, W>& ring, const DenseLaunch& launch, const DenseUnit& unit, int begin,
                             int end) {
  const int tiles = (unit.target->rows + kDenseTileRows - 1) / kDenseTileRows - unit.row_tile * W::kTiles;
  const int own_tiles = tiles < W::kTiles ? tiles : W::kTiles;
  const int group = unit.first_column / 8, groups = launch.column_groups - group;
  const int x_bytes = (groups < W::kQuads ? groups : W::kQuads) * kGroupBytes;
  const Words4* const weight = unit.weight + int64_t{unit.row_tile} * W::kTiles * launch.k_blocks * kTilePieces<kKind>;
  constexpr int kTileBytes = kTilePieces<kKind> * 16;
  const auto begin_weights = [&](int block, int stage) {
    barrier_arrive_expecting(ring.full[stage], own_tiles * kTileBytes + x_bytes);   // of both
    for (int tile = 0; tile < own_tiles; ++tile)
      copy_bulk<Source::kConstant>(ring.a[stage][tile],
                                   weight + (int64_t{tile} * launch.k_blocks + block) * kTilePieces<kKind>, kTileBytes,
                                   ring.full[stage]);
  };
  const auto begin_inputs = [&](int block, int stage) {
    copy_bulk(ring.b[stage], launch.x + (int64_t{block} * launch.column_groups + group) * kGroupBytes, x_bytes,
              ring.full[stage]);
  };
  const int ahead = end - begin < W::kStages ? end - begin : W::kStages;
  if (lane_id() == 0)
    for (int stage = 0; stage < ahead; ++stage) begin_weights(begin + stage, stage);
  __syncwarp();
  wait_for_inputs();
  if (lane_id() != 0) return;
  for (int stage = 0; stage < ahead; ++stage) begin_inputs(begin + stage, stage);
  for (int block = begin + ahead; block < end; ++block) {
    const int number = block - begin, stage = number % W::kStages, turn = number / W::kStages;
    barrier_wait(ring.empty[stage], (turn - 1) % 2);
    begin_weights(block, stage);
    begin_inputs(block, stage);
  }
}

template <DenseKind kKind, typename W>
MONOLITH_DEVICE void consume(Ring<kKind, W>& ring, const DenseLaunch& launch, const DenseUnit& unit, int begin) {
  const int warp = warp_id(), lane = lane_id();
  const int first_row = (unit.row_tile * W::kTiles + warp) * kDenseTileRows;
  float sums[W::kQuads][4];
  int number = 0;
  for (int segment = unit.first_segment; segment < unit.last_segment; ++segment) {
    const int first = number, end = segment_begin(launch, *unit.target, segment + 1) - begin;
    for (; number < end; ++number) {
      const int stage = number % W::kStages;
      barrier_wait(ring.full[stage], number / W::kStages % 2);
      Words4 pieces[kBlockPieces<kKind>], a[kSteps];
      MONOLITH_UNROLL
      for (int i = 0; i < kBlockPieces<kKind>; ++i) pieces[i] = ring.a[stage][warp][i][lane];
      MONOLITH_UNROLL
      for (int step = 0; step < kSteps; ++step) a[step] = fragment_of<kKind>(pieces, step);
      products_fence();
      MONOLITH_UNROLL
      for (int step = 0; step < kSteps; ++step)
        product<kKind == DenseKind::kBf16>(sums, a[step], operand_at(&ring.b[stage][0][step * 256], 128, kGroupBytes),
                                           number > first || step > 0);
      products_wait(sums);
      __syncwarp();
      if (lane == 0) barrier_arrive(ring.empty[stage]);
    }
    if (!launch.split) add_segment<kKind, W::kAtOnce>(launch, unit, segment, first_row, 0, sums);
  }
  if (!launch.split) return;
  Floats4* const left = left_sums(launch, unit.number, W::kQuads, W::kConsumers, static_cast<int>(threadIdx.x));
  MONOLITH_UNROLL
  for (int i = 0; i < W::kQuads; ++i) left[i * W::kConsumers] = {sums[i][0], sums[i][1], sums[i][2], sums[i][3]};
}

#endif

template <DenseKind kKind, typename W>
__global__ void __launch_bounds__(W::kThreads, W::kBlocks)
    wgmma_kernel([[maybe_unused]] const __grid_constant__ DenseLaunch launch) {
  let_next_start();
#if MONOLITH_WGMMA
  if (launch.tiles) wait_for_inputs();   // which weights a block multiplies with has been computed, too
  auto& ring = shared_memory<Ring<kKind, W>>();
  const DenseUnit unit = find_unit<kKind>(launch, W::kColumns);
  if (unit.empty) return;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < W::kStages; ++stage) {
      barrier_init(ring.full[stage], 1);
      barrier_init(ring.empty[stage], W::kGroups * 4);   // a lane of each warp
    }
    barrier_inits_done();
  }
  __syncthreads();
  const int begin = segment_begin(launch, *unit.target, unit.first_segment);
  if (warp_id() >= W::kGroups * 4) {
    if constexpr (W::kMovesRegisters) give_registers<kProducerRegisters>();
    if (warp_id() == W::kGroups * 4)
      produce(ring, launch, unit, begin, segment_begin(launch, *unit.target, unit.last_segment));
    else
      wait_for_inputs();
    __syncwarp();
    if (launch.split) is_last_of_tile(launch, unit, ring.last);
  } else {
    if constexpr (W::kMovesRegisters) take_registers<kConsumerRegisters>();
    wait_for_inputs();
    consume<kKind>(ring, launch, unit, begin);
    if (!launch.split || !is_last_of_tile(launch, unit, ring.last)) return;
    const int64_t step = int64_t{unit.stride} * W::kQuads * W::kConsumers;
    add_left_sums<kKind, W::kLeftAtOnce, W::kQuads>(
        launch, unit, (unit.row_tile * W::kTiles + warp_id()) * kDenseTileRows, 0,
        left_sums(launch, unit.number, W::kQuads, W::kConsumers, static_cast<int>(threadIdx.x)) -
            unit.first_segment * step,
        step, W::kConsumers);
  }
#else
  wait_for_inputs();
#endif
}

template <DenseKind kKind, typename W>
void launch_kind(Runtime& runtime, const DenseLaunch& work) {
  launch(runtime, wgmma_kernel<kKind, W>, dim3{static_cast<unsigned>(work.row_units * work.column_tiles), 1, 1},
         W::kThreads, sizeof(Ring<kKind, W>), work);
}

template <typename W>
void launch_width(Runtime& runtime, DenseKind kind, const DenseLaunch& work) {
  switch (kind) {
    case DenseKind::kBf16: return launch_kind<DenseKind::kBf16, W>(runtime, work);
    case DenseKind::kF16: return launch_kind<DenseKind::kF16, W>(runtime, work);
    case DenseKind::kFp8: return launch_kind<DenseKind::kFp8, W>(runtime, work);
  }
}

}  // namespace

// Stages fill 227 KB of shared memory: with two blocks where few columns leave registers for them.
void launch_dense_wgmma(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& work) {
  switch (plan.tile_columns) {
    case 8: return launch_width<Width<1, 8, 11, 2>>(runtime, kind, work);
    case 32: return launch_width<Width<2, 32, 5, 2>>(runtime, kind, work);
    case 64: return launch_width<Width<2, 64, 4, 2>>(runtime, kind, work);
    case 128: return launch_width<Width<2, 128, 6, 1>>(runtime, kind, work);
    default: return launch_width<Width<2, 256, 4, 1>>(runtime, kind, work);
  }
}

}  // namespace monolith::cuda
