// Products on Hopper: producers fill a ring of stages in shared memory with bulk copies, 64 k each of weights and
// activations; every group of four warps takes its 64 rows of weights from there to registers and multiplies them with
// all columns of the tile (wgmma). Several warps copy, each its tiles of a stage: one alone cannot ask for as much as the
// memory and the multiplying warps could take. Few columns are the same kernel with a narrow tile of 64 rows: what then
// counts is that 64 to 90 KB of weights are always under way to each block, with two blocks on a multiprocessor, and that
// there are blocks for all of them.
//
// Many columns: the tensor cores shall never wait. A block computes one tile after the other, and while it writes one's
// outputs the next one's stages arrive. Half a stage is always under way: registers of A are two halves, one of them read
// while the other is multiplied, and a stage is given back half a stage late. What segments add up to stays in registers,
// which leaves room for 192 columns; 256 are for matrices of one segment, and for split ones.
#include <algorithm>

#include "backend/cuda/dense/kernels.h"
#include "backend/cuda/device/wgmma.h"

namespace monolith::cuda {
namespace {

constexpr int kGroupBytes = 8 * kDenseBlockK * 2;  // of 8 columns of a stage

// How wide a kernel is.
template <int kTheGroups, int kTheColumns, int kTheStages, int kTheBlocks, int kTheProducers>
struct Width {
  static constexpr int kGroups = kTheGroups;  // of four warps, each with 64 rows
  static constexpr int kColumns = kTheColumns;
  static constexpr int kStages = kTheStages;
  static constexpr int kBlocks = kTheBlocks;        // on a multiprocessor at once
  static constexpr int kProducers = kTheProducers;  // warps that copy
  static constexpr int kTiles = kGroups * 4;        // of 16 rows
  static constexpr int kConsumers = kGroups * kWarpgroup;
  static constexpr int kQuads = kColumns / 8;
  static constexpr bool kIsWide = kColumns >= 128;
  static constexpr bool kSplits = kColumns != 192;  // segments may be units of their own: else no register is left
  // Two groups with sums of many columns need more registers than threads have at the start: the warps that copy are a whole
  // group, which gives its own up.
  static constexpr bool kMovesRegisters = kIsWide;
  static_assert(!kMovesRegisters || kProducers == 4, "registers move between whole groups of warps");
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
// What a thread reads at once of what units have left. Sums of 256 columns leave it few registers.
template <typename W>
constexpr int kLeftAtOnce = W::kColumns == 256 ? 16 : kManyAtOnce;
// Of 16 rows of a stage, in pieces of 16 bytes.
template <DenseKind kKind>
constexpr int kTilePieces = kBlockPieces<kKind>* kWarp;
constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;  // where they move

// Where in the ring the next stage is, for all of a block's units.
template <typename W>
struct Place {
  int stage = 0, parity = 0;  // of its barriers' phase
  MONOLITH_DEVICE void advance() {
    if (++stage == W::kStages) stage = 0, parity ^= 1;
  }
};

// By one of the warps that copy: its share of all stages of the unit, in order. Weights are there before the inputs are:
// as many stages of a block's first unit as there are begin with them, and get their inputs when these are computed.
template <DenseKind kKind, typename W>
MONOLITH_DEVICE void produce(Ring<kKind, W>& ring, const DenseLaunch& launch, const DenseUnit& unit, int begin, int end,
                             Place<W>& place, bool first) {
  constexpr int kTileBytes = kTilePieces<kKind> * 16;
  const int own = warp_id() - W::kGroups * 4;
  const int tiles = (unit.target->rows + kDenseTileRows - 1) / kDenseTileRows - unit.row_tile * W::kTiles;
  const int last = tiles < W::kTiles ? tiles : W::kTiles;
  const int group = unit.first_column / 8, groups = launch.column_groups - group;
  const int x_groups = groups < W::kQuads ? groups : W::kQuads;
  const bool copies_x = own == W::kProducers - 1;  // the last one copies columns, too
  const int own_tiles = last > own ? (last - own + W::kProducers - 1) / W::kProducers : 0;
  const int own_bytes = own_tiles * kTileBytes + (copies_x ? x_groups * kGroupBytes : 0);
  const int64_t tile_step = int64_t{launch.k_blocks} * kTilePieces<kKind> * W::kProducers;
  const Words4* weight =
      unit.weight + ((int64_t{unit.row_tile} * W::kTiles + own) * launch.k_blocks + begin) * kTilePieces<kKind>;
  const unsigned char* x = launch.x + (int64_t{begin} * launch.column_groups + group) * kGroupBytes;
  const int64_t x_step = int64_t{launch.column_groups} * kGroupBytes;
  const auto begin_weights = [&](int stage) {
    barrier_arrive_expecting(ring.full[stage], own_bytes);  // of both
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
    barrier_wait(ring.empty[place.stage], place.parity ^ 1);  // in the first round at once
    begin_weights(place.stage);
    begin_inputs(place.stage);
  }
}

// By whole warps, which read it no more.
template <DenseKind kKind, typename W>
MONOLITH_DEVICE void give_back(Ring<kKind, W>& ring, int stage) {
  __syncwarp();
  if (lane_id() == 0) barrier_arrive(ring.empty[stage]);
}

// Of a split unit.
template <typename W>
MONOLITH_DEVICE void leave_sums(const DenseLaunch& launch, int unit, const float (&sums)[W::kQuads][4]) {
  Floats4* const left = left_sums(launch, unit, W::kQuads, W::kConsumers, static_cast<int>(threadIdx.x));
  MONOLITH_UNROLL
  for (int i = 0; i < W::kQuads; ++i) left[i * W::kConsumers] = {sums[i][0], sums[i][1], sums[i][2], sums[i][3]};
}

// A thread's outputs of a unit, for whole loops over its sums: where the first is, and which of them are there. Kept
// small: nothing of it lives on while products are computed.
struct Outputs {
  float* to[2];    // of both columns of a quad
  int64_t step;    // to the next quad
  int left;        // columns of the unit from the thread's first on
  bool inside[2];  // of its two rows

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
  // Of number i % 4 of quad i / 4.
  MONOLITH_DEVICE bool has(int i) const { return inside[i % 4 / 2] && i / 4 * 8 + i % 2 < left; }
  MONOLITH_DEVICE float& at(int i) const { return to[i % 2][i % 4 / 2 * 8]; }
  MONOLITH_DEVICE void next(int i) {  // after number i, in ascending order
    if (i % 4 >= 2) to[i % 2] += step;
  }
};

// What the outputs of a thread's sums begin with; zeros where the unit is split.
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
    if (i % 8 == 0) __syncwarp();  // only so many scales at once: for all there are no registers
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

// With half a stage of products always under way. Sums and totals take nearly all registers, so the unit's
// own numbers are dropped while products are computed, and read again afterwards.
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
    int last = 0;  // the stage that is read last
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
        products_wait<1>();  // the half before: its registers are free, and what it has read
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
  if (launch.tiles) wait_for_inputs();  // which weights a block multiplies with has been computed, too
  auto& ring = shared_memory<Ring<kKind, W>>();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < W::kStages; ++stage) {
      barrier_init(ring.full[stage], W::kProducers);
      barrier_init(ring.empty[stage], W::kGroups * 4);  // a lane of each warp
    }
    barrier_inits_done();
  }
  __syncthreads();
  const auto each_unit = [&](const auto& work) {
    const int number = static_cast<int>(blockIdx.x);
    if constexpr (!W::kIsWide)
      work(number);
    else  // one after the other; where they are split there is a block for each
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

// Stages fill 227 KB of shared memory: with two blocks where few columns leave registers for them.
void launch_dense_wgmma(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& work) {
  switch (plan.tile_columns) {
    case 8:  // 8-bit weights are half as many bytes to a copy
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
