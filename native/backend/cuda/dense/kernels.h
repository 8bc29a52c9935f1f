// Code shared by the GEMM kernels: launch arguments, assignment of work units to blocks, and the conversion of sums to
// outputs. Included only by the *.cu files of this folder.
#pragma once

#include "backend/cuda/dense/dense.h"
#include "backend/cuda/dense/fp8.h"
#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/tensor.h"

namespace monolith::cuda {

// One matrix of a launch. With experts, the pointers refer to the first expert's matrix, which the other experts'
// matrices follow.
struct DenseTarget {
  const Words4* weight;
  const float* row_scales;  // For FP8 only.
  float* out;
  const float* bias;  // Bias of the first expert, followed by the other experts' biases.
  int64_t out_stride;
  int32_t rows;       // Rows of one expert.
  int32_t row_tiles;  // Number of row tiles at the launch's tile size.
  int32_t segments;
  int32_t add_to_out;
};

// Number of 16-byte groups per lane in which a warp holds the weights of 16 rows and 64 values of k.
template <DenseKind kKind>
inline constexpr int kBlockPieces = kKind == DenseKind::kFp8 ? 2 : 4;

struct DenseLaunch {
  DenseTarget targets[kMaxDenseTargets];
  const unsigned char* x;   // Converted activations.
  const float* scales;      // One per column; null means 1.
  const ColumnTile* tiles;  // Column tiles of experts; null if columns are tiled from 0.
  float* sums;              // Split-K only: partial sums, [unit][tile rows x tile columns].
  int32_t* counters;        // Split-K only: one counter per unit; each tile uses the counter of its first unit.
  int32_t n_targets;
  int32_t k_blocks;
  int32_t n_columns;
  int32_t column_groups;  // Groups of 8 columns in x.
  int32_t column_tiles;
  int32_t row_units;  // Sum over all targets of their row tiles, multiplied by segments for split-K.
  int32_t split;
};

// The work of a block: a tile of one matrix, with either all segments or a single segment.
struct DenseUnit {
  const DenseTarget* target;
  const Words4* weight;     // Weights of the expert.
  const float* row_scales;  // Row scales of the expert; for FP8 only.
  int32_t row_tile;
  int32_t first_segment, last_segment;  // last_segment is exclusive.
  int32_t first_column, n_columns;
  int32_t expert;  // 0 if there are no experts.
  int32_t number;  // Index among all units.
  int32_t stride;  // Distance to the unit index of the same tile's next segment.
  bool empty;
};

// Number of column tiles that are adjacent in launch order. Blocks run approximately in index order. Blocks that run at
// the same time should cover about as many columns as rows, so that they share operands in the L2 cache.
inline constexpr int kColumnTilesTogether = 8;

template <DenseKind kKind>
MONOLITH_DEVICE DenseUnit find_unit(const DenseLaunch& launch, int tile_columns, int32_t number) {
  DenseUnit unit;
  const int32_t together = launch.row_units * kColumnTilesTogether, group = number / together;
  const int32_t left = launch.column_tiles - group * kColumnTilesTogether;
  const int32_t width = left < kColumnTilesTogether ? left : kColumnTilesTogether;
  const int32_t within = number - group * together;
  const int32_t column_tile = group * kColumnTilesTogether + within % width;
  int32_t row_unit = within / width;
  int t = 0;
  int32_t per_tile = launch.split ? launch.targets[0].segments : 1;
  while (t + 1 < launch.n_targets && row_unit >= launch.targets[t].row_tiles * per_tile) {
    row_unit -= launch.targets[t].row_tiles * per_tile;
    ++t;
    per_tile = launch.split ? launch.targets[t].segments : 1;
  }
  const DenseTarget& target = launch.targets[t];
  unit.target = &target;
  unit.row_tile = row_unit / per_tile;
  unit.first_segment = row_unit % per_tile;
  unit.last_segment = launch.split ? unit.first_segment + 1 : target.segments;
  unit.number = number;
  unit.stride = width;
  unit.weight = target.weight;
  unit.row_scales = target.row_scales;
  if (launch.tiles) {
    const ColumnTile tile = launch.tiles[column_tile];
    unit.empty = tile.count == 0;
    unit.first_column = tile.first;
    unit.n_columns = tile.count;
    // The rows of each expert start at a tile boundary.
    unit.weight += static_cast<int64_t>(tile.expert) * (target.rows / kDenseTileRows) * launch.k_blocks *
                   (kBlockPieces<kKind> * kWarp);
    if constexpr (kKind == DenseKind::kFp8) unit.row_scales += static_cast<int64_t>(tile.expert) * target.rows;
    unit.expert = tile.expert;
  } else {
    unit.empty = false;
    unit.expert = 0;
    unit.first_column = column_tile * tile_columns;
    const int32_t rest = launch.n_columns - unit.first_column;
    unit.n_columns = rest < tile_columns ? rest : tile_columns;
  }
  return unit;
}

// Overload for launches in which each block computes one unit.
template <DenseKind kKind>
MONOLITH_DEVICE DenseUnit find_unit(const DenseLaunch& launch, int tile_columns) {
  return find_unit<kKind>(launch, tile_columns, static_cast<int32_t>(blockIdx.x));
}

// Returns the block of k at which a segment starts.
MONOLITH_DEVICE int segment_begin(const DenseLaunch& launch, const DenseTarget& target, int segment) {
  return static_cast<int>(static_cast<int64_t>(segment) * launch.k_blocks / target.segments);
}

// Returns the bias of row `row` of the unit. The target must have a bias.
MONOLITH_DEVICE float dense_bias(const DenseUnit& unit, int row) {
  return unit.target->bias[static_cast<int64_t>(unit.expert) * unit.target->rows + row];
}

// Returns the initial value, to which the sums of the segments are added.
MONOLITH_DEVICE float dense_begin(const DenseUnit& unit, const float* to, int row) {
  float value = unit.target->add_to_out ? *to : 0.0f;
  if (unit.target->bias) value += dense_bias(unit, row);
  return value;
}

MONOLITH_DEVICE float dense_scale(const DenseLaunch& launch, int column) {
  return launch.scales ? launch.scales[column] : 1.0f;
}

// Returns the factor by which the sums of a row and column are multiplied.
template <DenseKind kKind>
MONOLITH_DEVICE float dense_scale(const DenseLaunch& launch, const DenseUnit& unit, int row, int column) {
  const float scale = dense_scale(launch, column);
  return kKind == DenseKind::kFp8 ? scale * unit.row_scales[row] : scale;
}

// Returns the fragment of step `step` from a lane's 16-byte groups. A block has four steps, half a block has two.
template <DenseKind kKind>
MONOLITH_DEVICE Words4 fragment_of(const Words4* pieces, int step) {
  if constexpr (kKind != DenseKind::kFp8) return pieces[step];
  const Words4 piece = pieces[step / 2];
  const Words2 first = fp8_halves(step % 2 == 0 ? piece.x : piece.z),
               second = fp8_halves(step % 2 == 0 ? piece.y : piece.w);
  return {first.x, first.y, second.x, second.y};
}

// Position of a thread's accumulators for fragments of 8 columns: sums[i] is at row row_of(i) and column column_of(i)
// of a tile of 16 rows.
MONOLITH_DEVICE int row_of(int i) { return lane_id() / 4 + i % 4 / 2 * 8; }
MONOLITH_DEVICE int column_of(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }

// Number of values that add_segment() and add_left_sums() read together in each thread. If values were read one at a
// time, each read would wait for memory. A larger batch takes more registers.
inline constexpr int kSomeAtOnce = 4, kManyAtOnce = 32;

// Values that add_segment() computes once per thread, before it adds the sums. `left` is the number of columns that
// remain in the unit, counted from the thread's first column.
struct SegmentPlace {
  float* to;            // The thread's first output.
  const float* scales;  // Scale of the thread's first column; null means 1.
  float bias[2];
  float row_scales[2];  // For FP8 only.
  int32_t left;
  bool rows_inside[2];
  bool reads, biased;
};

// Adds all sums of a thread to the outputs. Skips sums outside the matrix or the unit. With kWhole, there are no such
// sums, and nothing is checked.
template <DenseKind kKind, bool kWhole, int kTogether, int kQuads>
MONOLITH_DEVICE void add_sums(const SegmentPlace& place, int64_t stride, const float (&sums)[kQuads][4]) {
  const int64_t step = 8 * stride;
  float* to[2] = {place.to, place.to + stride};  // Outputs of the two columns of a quad.
  MONOLITH_UNROLL
  for (int begin = 0; begin < kQuads; begin += kTogether) {
    float values[kTogether][4] = {}, scales[kTogether][2];
    const auto inside = [&](int q, int j) {
      return kWhole || (place.rows_inside[j / 2] && (begin + q) * 8 + j % 2 < place.left);
    };
    if (place.reads) {
      const float* from[2] = {to[0], to[1]};
      MONOLITH_UNROLL
      for (int i = 0; i < kTogether * 4; ++i) {
        if (inside(i / 4, i % 4)) values[i / 4][i % 4] = from[i % 2][i % 4 / 2 * 8];
        if (i % 4 >= 2) from[i % 2] += step;
      }
    }
    if (place.biased) {
      MONOLITH_UNROLL
      for (int i = 0; i < kTogether * 4; ++i) values[i / 4][i % 4] += place.bias[i % 4 / 2];
    }
    MONOLITH_UNROLL
    for (int i = 0; i < kTogether * 2; ++i) scales[i / 2][i % 2] = 1.0f;
    if (place.scales) {
      MONOLITH_UNROLL
      for (int i = 0; i < kTogether * 2; ++i) {
        const int column = (begin + i / 2) * 8 + i % 2;
        if (kWhole || column < place.left) scales[i / 2][i % 2] = place.scales[column];
      }
    }
    MONOLITH_UNROLL
    for (int i = 0; i < kTogether * 4; ++i) {
      float scale = scales[i / 4][i % 2];
      if constexpr (kKind == DenseKind::kFp8) scale *= place.row_scales[i % 4 / 2];
      if (inside(i / 4, i % 4))
        to[i % 2][i % 4 / 2 * 8] = fmaf(sums[begin + i / 4][i % 4], scale, values[i / 4][i % 4]);
      if (i % 4 >= 2) to[i % 2] += step;
    }
  }
}

// Adds the sums of segment `segment` to the outputs, for 16 rows from `first_row` and the unit's columns from
// `first_column`. The code is unrolled over all sums and runs once per segment while the tensor cores wait. Values
// common to all sums are therefore computed first, so that each sum takes little more than one read, one fmaf() and one
// write.
template <DenseKind kKind, int kAtOnce, int kQuads>
MONOLITH_DEVICE void add_segment(const DenseLaunch& launch, const DenseUnit& unit, int segment, int first_row,
                                 int first_column, const float (&sums)[kQuads][4]) {
  const DenseTarget& target = *unit.target;
  constexpr int kTogether = kQuads * 4 < kAtOnce ? kQuads : kAtOnce / 4;  // Number of quads.
  const int row = first_row + row_of(0), within = first_column + column_of(0), column = unit.first_column + within;
  SegmentPlace place;
  place.to = target.out + column * target.out_stride + row;
  place.scales = launch.scales ? launch.scales + column : nullptr;
  place.left = unit.n_columns - within;
  place.reads = segment > 0 || target.add_to_out;
  place.biased = segment == 0 && target.bias;
  for (int half = 0; half < 2; ++half) {
    place.rows_inside[half] = row + 8 * half < target.rows;
    place.bias[half] = place.biased && place.rows_inside[half] ? dense_bias(unit, row + 8 * half) : 0.0f;
    if constexpr (kKind == DenseKind::kFp8)
      place.row_scales[half] = place.rows_inside[half] ? unit.row_scales[row + 8 * half] : 0.0f;
  }
  if (place.rows_inside[1] && place.left > kQuads * 8 - 7)
    add_sums<kKind, true, kTogether>(place, target.out_stride, sums);
  else
    add_sums<kKind, false, kTogether>(place, target.out_stride, sums);
}

// Returns the address at which a split-K unit stores the partial sums of thread `thread`. Each of `threads` threads
// stores `quads` quads, which are `threads` quads apart.
MONOLITH_DEVICE Floats4* left_sums(const DenseLaunch& launch, int64_t unit, int quads, int threads, int thread) {
  return reinterpret_cast<Floats4*>(launch.sums) + unit * (quads * threads) + thread;
}

// Returns whether this block is the last to arrive of the blocks that compute the segments of its tile. All threads of
// the block call it after storing their partial sums. `last` is in shared memory.
MONOLITH_DEVICE bool is_last_of_tile(const DenseLaunch& launch, const DenseUnit& unit, int& last) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t* const counter = launch.counters + unit.number - unit.first_segment * unit.stride;
    const bool done = atomicAdd(counter, 1) == unit.target->segments - 1;
    if (done) *counter = 0;  // Resets the counter for the next launch.
    __threadfence();
    last = done;
  }
  __syncthreads();
  return last != 0;
}

// Adds the partial sums of all units of a tile to the outputs, in the same order as consecutive calls to add_segment().
// `left` is left_sums() of the tile's first unit, `step` the distance to the next unit's sums, and `threads` the
// distance to the next quad.
template <DenseKind kKind, int kAtOnce, int kQuads>
MONOLITH_DEVICE void add_left_sums(const DenseLaunch& launch, const DenseUnit& unit, int first_row, int first_column,
                                   const Floats4* left, int64_t step, int threads) {
  constexpr int kMax = kAtOnce < 8 ? 1 : kAtOnce / 8, kChunk = kQuads < kMax ? kQuads : kMax;
  constexpr int kSegments = kAtOnce >= 8 && kChunk == 1 ? 8 : 4;
  // Number of scales per quad: one for each of its columns and, for FP8, also one for each of its rows.
  constexpr int kScales = kKind == DenseKind::kFp8 ? 4 : 2;
  const DenseTarget& target = *unit.target;
  for (int begin = 0; begin < kQuads; begin += kChunk) {
    float value[kChunk][4], scale[kChunk][kScales];
    MONOLITH_UNROLL
    for (int q = 0; q < kChunk; ++q) MONOLITH_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + row_of(j), within = first_column + (begin + q) * 8 + column_of(j);
      const bool inside = row < target.rows && within < unit.n_columns;
      const float* const from = target.out + (unit.first_column + within) * target.out_stride + row;
      value[q][j] = inside ? dense_begin(unit, from, row) : 0.0f;
      if (j < kScales) scale[q][j] = inside ? dense_scale<kKind>(launch, unit, row, unit.first_column + within) : 0.0f;
    }
    for (int first = 0; first < target.segments; first += kSegments) {
      Floats4 sums[kSegments][kChunk];
      MONOLITH_UNROLL
      for (int s = 0; s < kSegments; ++s) MONOLITH_UNROLL
      for (int q = 0; q < kChunk; ++q)
        if (first + s < target.segments) sums[s][q] = load_fresh(left + (first + s) * step + (begin + q) * threads);
      MONOLITH_UNROLL
      for (int s = 0; s < kSegments; ++s) {
        if (first + s >= target.segments) break;
        MONOLITH_UNROLL
        for (int q = 0; q < kChunk; ++q) {
          value[q][0] = fmaf(sums[s][q].x, scale[q][0], value[q][0]);
          value[q][1] = fmaf(sums[s][q].y, scale[q][1], value[q][1]);
          value[q][2] = fmaf(sums[s][q].z, scale[q][2 % kScales], value[q][2]);
          value[q][3] = fmaf(sums[s][q].w, scale[q][3 % kScales], value[q][3]);
        }
      }
    }
    MONOLITH_UNROLL
    for (int q = 0; q < kChunk; ++q) MONOLITH_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + row_of(j), within = first_column + (begin + q) * 8 + column_of(j);
      if (row < target.rows && within < unit.n_columns)
        target.out[(unit.first_column + within) * target.out_stride + row] = value[q][j];
    }
  }
}

// c += A B for one step of 16 values of k.
template <DenseKind kKind>
MONOLITH_DEVICE void mma_dense(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kKind == DenseKind::kBf16)
    mma_bf16(c, a, b);
  else
    mma_f16(c, a, b);
}

// Defined in the *.cu files.
void launch_dense_few(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& launch);
void launch_dense_tiles(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& launch);
void launch_dense_wgmma(Runtime& runtime, const DensePlan& plan, DenseKind kind, const DenseLaunch& launch);

// Converts activations into scratch.activations(), and computes scratch.scales() for binary16.
void convert_dense(Runtime& runtime, const DenseScratch& scratch, DenseKind kind, const float* x, int64_t cols,
                   int64_t n_columns, const int32_t* source);

}  // namespace monolith::cuda
