// GEMM kernel for Hopper (wgmma). Producer warps fill a ring of stages in shared memory with bulk copies, each stage
// with 64 values of k of weights and activations. Each consumer warpgroup reads its 64 rows of weights from a stage
// into registers and multiplies them with all columns of the tile. Several producer warps each copy their own tiles of
// a stage, because a single warp cannot issue copies as fast as memory and consumers allow. For few columns, the same
// kernel is used with a narrow tile of 64 rows. Two properties matter in that case: each block always has 64 to 90 KB
// of weights in flight, with two blocks per multiprocessor, and there are enough blocks for all multiprocessors.
//
// With many columns, the tensor cores should never wait. A block computes one tile after another, and the next tile's
// stages arrive while it writes the outputs of the current tile. Half a stage of products is always in flight: the A
// registers form two halves, and one half is read while the other is multiplied. A stage is therefore released half a
// stage late. Totals over segments stay in registers, which leaves room for 192 columns. A width of 256 is used for
// matrices with one segment and for split-K.
#include <algorithm>

#include "backend/cuda/dense/kernels.h"
#include "backend/cuda/device/wgmma.h"

namespace monolith::cuda {
namespace {

constexpr int kGroupBytes = 8 * kDenseBlockK * 2;  // Bytes of 8 columns in a stage.

// Compile-time size of a kernel variant.
template <int kTheGroups, int kTheColumns, int kTheStages, int kTheBlocks, int kTheProducers>
struct Width {
  static constexpr int kGroups = kTheGroups;  // Consumer warpgroups; each computes 64 rows.
  static constexpr int kColumns = kTheColumns;
  static constexpr int kStages = kTheStages;
  static constexpr int kBlocks = kTheBlocks;        // Blocks per multiprocessor.
  static constexpr int kProducers = kTheProducers;  // Producer warps.
  static constexpr int kTiles = kGroups * 4;        // Row tiles of 16 rows.
  static constexpr int kConsumers = kGroups * kWarpgroup;
  static constexpr int kQuads = kColumns / 8;
  static constexpr bool kIsWide = kColumns >= 128;
  // Whether split-K is supported. Tiles with 192 columns leave no registers for it.
  static constexpr bool kSplits = kColumns != 192;
  // Two warpgroups with accumulators for many columns need more registers than threads have initially. The producers
  // are then a whole warpgroup, which releases its registers.
  static constexpr bool kMovesRegisters = kIsWide;
  static_assert(!kMovesRegisters || kProducers == 4, "registers can be moved only between whole warpgroups");
  static constexpr int kThreads = kConsumers + kProducers * kWarp;
};

template <DenseKind kKind, typename W>
struct Ring {
  Words4 a[W::kStages][W::kTiles][kBlockPieces<kKind>][kWarp];
  unsigned char b[W::kStages][W::kQuads][kGroupBytes];
  Barrier full[W::kStages], empty[W::kStages];
  int last;
};

#if MONOLITH_WGMMA

constexpr int kSteps = kDenseBlockK / 16;
// Number of partial sums that a thread reads from memory together. With 256 columns, the accumulators leave few
// registers.
template <typename W>
constexpr int kLeftAtOnce = W::kColumns == 256 ? 16 : kManyAtOnce;
// Number of 16-byte groups that hold the weights of 16 rows in a stage.
template <DenseKind kKind>
constexpr int kTilePieces = kBlockPieces<kKind>* kWarp;
constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;  // Registers per thread after they are redistributed.

// The position of the next stage in the ring, continued across all units of a block.
template <typename W>
struct Place {
  int stage = 0, parity = 0;  // Phase parity of the stage's barriers.
  MONOLITH_DEVICE void advance() {
    if (++stage == W::kStages) stage = 0, parity ^= 1;
  }
};

// Runs in each producer warp: copies the warp's share of all stages of a unit in order. Weights are available before
// the inputs. For a block's first unit, the weights of its stages are therefore copied first, and the inputs are copied
// as soon as they have been computed.
template <DenseKind kKind, typename W>
MONOLITH_DEVICE void produce(Ring<kKind, W>& ring, const DenseLaunch& launch, const DenseUnit& unit, int begin, int end,
                             Place<W>& place, bool first) {
  constexpr int kTileBytes = kTilePieces<kKind> * 16;
  const int own = warp_id() - W::kGroups * 4;
  const int tiles = (unit.target->rows + kDenseTileRows - 1) / kDenseTileRows - unit.row_tile * W::kTiles;
  const int last = tiles < W::kTiles ? tiles : W::kTiles;
  const int group = unit.first_column / 8, groups = launch.column_groups - group;
  const int x_groups = groups < W::kQuads ? groups : W::kQuads;
  const bool copies_x = own == W::kProducers - 1;  // The last producer warp also copies the activations.
  const int own_tiles = last > own ? (last - own + W::kProducers - 1) / W::kProducers : 0;
  const int own_bytes = own_tiles * kTileBytes + (copies_x ? x_groups * kGroupBytes : 0);
  const int64_t tile_step = int64_t{launch.k_blocks} * kTilePieces<kKind> * W::kProducers;
  const Words4* weight =
      unit.weight + ((int64_t{unit.row_tile} * W::kTiles + own) * launch.k_blocks + begin) * kTilePieces<kKind>;
  const unsigned char* x = launch.x + (int64_t{begin} * launch.column_groups + group) * kGroupBytes;
  const int64_t x_step = int64_t{launch.column_groups} * kGroupBytes;
  const auto begin_weights = [&](int stage) {
    barrier_arrive_expecting(ring.full[stage], own_bytes);  // Expected bytes of both operands.
    MONOLITH_UNROLL
    for (int i = 0; i < (W::kTiles + W::kProducers - 1) / W::kProducers; ++i)
      if (i < own_tiles)
        copy_bulk<Source::kConstant>(ring.a[stage][own + i * W::kProducers], weight + i * tile_step, kTileBytes,
                                     ring.full[stage]);
    weight += kTilePieces<kKind>;
  };
  const auto begin_inputs = [&](int stage) {
    if (copies_x) copy_bulk(ring.b[stage], x, x_groups * kGroupBytes, ring.full[stage]);
    x += x_step;
  };
  int block = begin;
  if (first) {
    const int ahead = end - begin < W::kStages ? end - begin : W::kStages;
    if (lane_id() == 0) {
      MONOLITH_ROLLED
      for (int stage = 0; stage < ahead; ++stage) begin_weights(stage);
    }
    __syncwarp();
    wait_for_inputs();
    if (lane_id() == 0) {
      MONOLITH_ROLLED
      for (int stage = 0; stage < ahead; ++stage, place.advance()) begin_inputs(stage);
    }
    block += ahead;
  }
  if (lane_id() != 0) return;
  MONOLITH_ROLLED
  for (; block < end; ++block, place.advance()) {
    barrier_wait(ring.empty[place.stage], place.parity ^ 1);  // Returns immediately in the first round.
    begin_weights(place.stage);
    begin_inputs(place.stage);
  }
}

// Releases a stage. Called by whole warps when they no longer read it.
template <DenseKind kKind, typename W>
MONOLITH_DEVICE void give_back(Ring<kKind, W>& ring, int stage) {
  __syncwarp();
  if (lane_id() == 0) barrier_arrive(ring.empty[stage]);
}

// Stores the partial sums of a split-K unit.
template <typename W>
MONOLITH_DEVICE void leave_sums(const DenseLaunch& launch, int unit, const float (&sums)[W::kQuads][4]) {
  Floats4* const left = left_sums(launch, unit, W::kQuads, W::kConsumers, static_cast<int>(threadIdx.x));
  MONOLITH_UNROLL
  for (int i = 0; i < W::kQuads; ++i) left[i * W::kConsumers] = {sums[i][0], sums[i][1], sums[i][2], sums[i][3]};
}

// The outputs of a thread in a unit, for loops over all its sums: the address of the first output, and which outputs
// exist. The struct is small, and none of it stays live while products are computed.
struct Outputs {
  float* to[2];    // Addresses for both columns of a quad.
  int64_t step;    // Distance to the next quad.
  int left;        // Columns that remain in the unit, counted from the thread's first column.
  bool inside[2];  // Whether each of the thread's two rows exists.

  MONOLITH_DEVICE Outputs(const DenseUnit& unit, int first_row) {
    const DenseTarget& target = *unit.target;
    const int row = first_row + row_of(0);
    to[0] = target.out + (unit.first_column + column_of(0)) * target.out_stride + row;
    to[1] = to[0] + target.out_stride;
    step = 8 * target.out_stride;
    left = unit.n_columns - column_of(0);
    inside[0] = row < target.rows;
    inside[1] = row + 8 < target.rows;
  }
  // Returns whether output i exists: element i % 4 of quad i / 4.
  MONOLITH_DEVICE bool has(int i) const { return inside[i % 4 / 2] && i / 4 * 8 + i % 2 < left; }
  MONOLITH_DEVICE float& at(int i) const { return to[i % 2][i % 4 / 2 * 8]; }
  MONOLITH_DEVICE void next(int i) {  // Advances past output i; call in ascending order.
    if (i % 4 >= 2) to[i % 2] += step;
  }
};

// Sets the totals of a thread to the initial values of its outputs, or to zero for split-K.
template <int kQuads>
MONOLITH_DEVICE void begin_totals(const DenseLaunch& launch, const DenseUnit& unit, int first_row,
                                  float (&totals)[kQuads][4]) {
  const DenseTarget& target = *unit.target;
  MONOLITH_UNROLL
  for (int i = 0; i < kQuads * 4; ++i) totals[i / 4][i % 4] = 0;
  if (launch.split) return;
  if (target.add_to_out) {
    Outputs outputs(unit, first_row);
    MONOLITH_UNROLL
    for (int i = 0; i < kQuads * 4; ++i) {
      if (outputs.has(i)) totals[i / 4][i % 4] = outputs.at(i);
      outputs.next(i);
    }
  }
  if (target.bias) {
    const int row = first_row + row_of(0);
    const float bias[2] = {row < target.rows ? dense_bias(unit, row) : 0.0f,
                           row + 8 < target.rows ? dense_bias(unit, row + 8) : 0.0f};
    MONOLITH_UNROLL
    for (int i = 0; i < kQuads * 4; ++i) totals[i / 4][i % 4] += bias[i % 4 / 2];
  }
}

template <DenseKind kKind, int kQuads>
MONOLITH_DEVICE void add_to_totals(const DenseLaunch& launch, const DenseUnit& unit, int first_row,
                                   const float (&sums)[kQuads][4], float (&totals)[kQuads][4]) {
  if (!launch.scales) {
    MONOLITH_UNROLL
    for (int i = 0; i < kQuads * 4; ++i) totals[i / 4][i % 4] = fmaf(sums[i / 4][i % 4], 1.0f, totals[i / 4][i % 4]);
    return;
  }
  float of_rows[2] = {1.0f, 1.0f};
  if constexpr (kKind == DenseKind::kFp8)
    for (int half = 0; half < 2; ++half)
      if (const int row = first_row + row_of(2 * half); row < unit.target->rows) of_rows[half] = unit.row_scales[row];
  const int left = unit.n_columns - column_of(0);
  const float* const scales = launch.scales + unit.first_column + column_of(0);
  MONOLITH_UNROLL
  for (int i = 0; i < kQuads * 2; ++i) {
    const int quad = i / 2, j = i % 2, column = quad * 8 + j;
    // This compiler barrier limits how many scales are loaded at a time, because there are not enough registers for all
    // of them.
    if (i % 8 == 0) __syncwarp();
    const float scale = column < left ? scales[column] : 1.0f;
    totals[quad][j] = fmaf(sums[quad][j], scale * of_rows[0], totals[quad][j]);
    totals[quad][j + 2] = fmaf(sums[quad][j + 2], scale * of_rows[1], totals[quad][j + 2]);
  }
}

template <int kQuads>
MONOLITH_DEVICE void write_totals(const DenseUnit& unit, int first_row, const float (&totals)[kQuads][4]) {
  Outputs outputs(unit, first_row);
  MONOLITH_UNROLL
  for (int i = 0; i < kQuads * 4; ++i) {
    if (outputs.has(i)) outputs.at(i) = totals[i / 4][i % 4];
    outputs.next(i);
  }
}

// Computes a unit with half a stage of products always in flight. Sums and totals take nearly all registers, so the
// unit's description is discarded before the products are computed and looked up again afterwards.
template <DenseKind kKind, typename W>
MONOLITH_DEVICE void consume(Ring<kKind, W>& ring, const DenseLaunch& launch, int number, Place<W>& place) {
  constexpr int kHalf = kSteps / 2;
  constexpr bool kTotals = W::kIsWide && W::kColumns < 256;
  const auto first_row = [](const DenseUnit& unit) { return (unit.row_tile * W::kTiles + warp_id()) * kDenseTileRows; };
  const auto find_again = [&] { return find_unit<kKind>(launch, W::kColumns, forgotten(number)); };
  float sums[W::kQuads][4];
  float totals[kTotals ? W::kQuads : 1][4];
  int segment, last_segment, block;
  const DenseTarget* target;
  {
    const DenseUnit unit = find_again();
    if (unit.empty) return;
    target = unit.target;
    segment = unit.first_segment;
    last_segment = unit.last_segment;
    block = segment_begin(launch, *target, segment);
    if constexpr (kTotals) begin_totals(launch, unit, first_row(unit), totals);
  }
  const Words4* const own = &ring.a[0][warp_id()][0][lane_id()];
  constexpr int kStageWords = W::kTiles * kTilePieces<kKind>, kHalfPieces = kBlockPieces<kKind> / 2;
  Words4 a[kSteps];
  for (; segment < last_segment; ++segment) {
    const int end = segment_begin(launch, *target, segment + 1);
    bool add = false;
    int last = 0;  // The stage that was read last.
    for (; block < end; ++block, place.advance()) {
      const int stage = place.stage;
      barrier_wait(ring.full[stage], place.parity);
      MONOLITH_UNROLL
      for (int half = 0; half < 2; ++half) {
        Words4 pieces[kHalfPieces];
        MONOLITH_UNROLL
        for (int i = 0; i < kHalfPieces; ++i) pieces[i] = own[stage * kStageWords + (half * kHalfPieces + i) * kWarp];
        MONOLITH_UNROLL
        for (int step = 0; step < kHalf; ++step) a[half * kHalf + step] = fragment_of<kKind>(pieces, step);
        products_fence();
        MONOLITH_UNROLL
        for (int step = half * kHalf; step < (half + 1) * kHalf; ++step)
          product<kKind == DenseKind::kBf16>(sums, a[step], operand_at(&ring.b[stage][0][step * 256], 128, kGroupBytes),
                                             add || step > 0);
        products_commit();
        products_wait<1>();  // Waits for the previous half. Its registers and the shared memory it read are then free.
        if (half == 0 && add) give_back(ring, last);
      }
      last = stage;
      add = true;
    }
    products_wait(sums);
    give_back(ring, last);
    if (W::kSplits && launch.split) continue;
    if constexpr (kTotals) {
      const DenseUnit unit = find_again();
      add_to_totals<kKind>(launch, unit, first_row(unit), sums, totals);
    } else {
      const DenseUnit unit = find_again();
      add_segment<kKind, W::kIsWide ? kSomeAtOnce : kManyAtOnce>(launch, unit, segment, first_row(unit), 0, sums);
    }
  }
  if constexpr (W::kSplits)
    if (launch.split) return leave_sums<W>(launch, number, sums);
  if constexpr (kTotals) {
    const DenseUnit unit = find_again();
    write_totals(unit, first_row(unit), totals);
  }
}

#endif

template <DenseKind kKind, typename W>
__global__ void __launch_bounds__(W::kThreads, W::kBlocks)
    wgmma_kernel([[maybe_unused]] const __grid_constant__ DenseLaunch launch) {
  let_next_start();
#if MONOLITH_WGMMA
  if (launch.tiles) wait_for_inputs();  // The tile list, which selects a block's weights, is an input too.
  auto& ring = shared_memory<Ring<kKind, W>>();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < W::kStages; ++stage) {
      barrier_init(ring.full[stage], W::kProducers);
      barrier_init(ring.empty[stage], W::kGroups * 4);  // One arrival per consumer warp.
    }
    barrier_inits_done();
  }
  __syncthreads();
  const auto each_unit = [&](const auto& work) {
    const int number = static_cast<int>(blockIdx.x);
    if constexpr (!W::kIsWide)
      work(number);
    else  // A block computes several units one after the other. With split-K there is one block per unit.
      for (int i = number; i < launch.row_units * launch.column_tiles; i += static_cast<int>(gridDim.x)) work(i);
  };
  Place<W> place;
  if (warp_id() >= W::kGroups * 4) {
    if constexpr (W::kMovesRegisters) give_registers<kProducerRegisters>();
    bool first = true;
    each_unit([&](int number) {
      const DenseUnit unit = find_unit<kKind>(launch, W::kColumns, number);
      if (unit.empty) return;
      produce(ring, launch, unit, segment_begin(launch, *unit.target, unit.first_segment),
              segment_begin(launch, *unit.target, unit.last_segment), place, first);
      first = false;
      __syncwarp();
      if (W::kSplits && launch.split) is_last_of_tile(launch, unit, ring.last);
    });
  } else {
    if constexpr (W::kMovesRegisters) take_registers<kConsumerRegisters>();
    wait_for_inputs();
    each_unit([&](int number) {
      consume<kKind>(ring, launch, number, place);
      if constexpr (W::kSplits) {
        if (!launch.split) return;
        const DenseUnit unit = find_unit<kKind>(launch, W::kColumns, forgotten(number));
        if (unit.empty || !is_last_of_tile(launch, unit, ring.last)) return;
        const int64_t step = int64_t{unit.stride} * W::kQuads * W::kConsumers;
        add_left_sums<kKind, kLeftAtOnce<W>, W::kQuads>(
            launch, unit, (unit.row_tile * W::kTiles + warp_id()) * kDenseTileRows, 0,
            left_sums(launch, unit.number, W::kQuads, W::kConsumers, static_cast<int>(threadIdx.x)) -
                unit.first_segment * step,
            step, W::kConsumers);
      }
    });
  }
#else
  wait_for_inputs();
#endif
}

template <DenseKind kKind, typename W>
void launch_kind(Runtime& runtime, const DenseLaunch& work) {
  const int units = work.row_units * work.column_tiles;
  const bool one_each = !W::kIsWide || (W::kSplits && work.split);
  const int blocks = one_each ? units : std::min(units, std::max(runtime.device().multiprocessors, 1));
  launch(runtime, wgmma_kernel<kKind, W>, dim3{static_cast<unsigned>(blocks), 1, 1}, W::kThreads,
         sizeof(Ring<kKind, W>), work);
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

// The stages fill the 227 KB of shared memory. Narrow tiles leave enough registers for two blocks per multiprocessor.
// The two blocks then share the shared memory.
void launch_dense_wgmma(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& work) {
  switch (plan.tile_columns) {
    case 8:  // FP8 weights have half the bytes per copy, so more producer warps are used.
      if (kind == DenseKind::kFp8) return launch_kind<DenseKind::kFp8, Width<1, 8, 11, 2, 4>>(runtime, work);
      return launch_width<Width<1, 8, 11, 2, 2>>(runtime, kind, work);
    case 16: return launch_width<Width<1, 16, 11, 2, 4>>(runtime, kind, work);
    case 32: return launch_width<Width<1, 32, 9, 2, 4>>(runtime, kind, work);
    case 64: return launch_width<Width<1, 64, 6, 2, 4>>(runtime, kind, work);
    case 128: return launch_width<Width<2, 128, 6, 1, 4>>(runtime, kind, work);
    case 192: return launch_width<Width<2, 192, 5, 1, 4>>(runtime, kind, work);
    default: return launch_width<Width<2, 256, 4, 1, 4>>(runtime, kind, work);
  }
}

}  // namespace monolith::cuda
