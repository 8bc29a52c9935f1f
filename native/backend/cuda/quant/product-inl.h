// The kernels of quant/product.h and their launches. Included by the files that instantiate them for a code kind.
#pragma once

#include "backend/cuda/device/launch.h"
#include "backend/cuda/quant/stream-inl.h"
#include "backend/cuda/quant/tiles-inl.h"

namespace monolith::cuda::quant {

// --- few columns -----------------------------------------------------------------------------------------------

constexpr int kFewThreads = kSegments * kWarp;

// Reads the inputs of one chunk directly from device memory. Values for columns that do not exist are arbitrary.
template <int nt>
struct FarInputs {
  static constexpr bool kOneColumn = false;
  const Words2* codes_at[nt];  // The lane's codes in the first block of the chunk.
  const Words4* columns_at[nt];
  int n_columns;  // Number of existing columns, counted from the first column of the first group.

  // `blocks` points to the chunk's blocks for the first group of columns; `stride` is the number of blocks between
  // groups.
  MONOLITH_DEVICE FarInputs(const Int8Block* blocks, int64_t stride, int columns) : n_columns(columns) {
    MONOLITH_UNROLL
    for (int n = 0; n < nt; ++n) {
      codes_at[n] = hidden(blocks[n * stride].codes + lane_id());
      columns_at[n] = hidden(reinterpret_cast<const Words4*>(blocks[n * stride].columns) + lane_id() % 4);
    }
  }
  MONOLITH_DEVICE Words2 codes(int j, int n) const {
    const bool wanted = n * 8 + lane_id() / 4 < n_columns;
    if constexpr (nt == 1) return load_far_if(codes_at[n] + j * kPlaces * 2, wanted);
    return load_far(codes_at[n] + j * kPlaces * 2, wanted);
  }
  MONOLITH_DEVICE Words4 columns(int j, int n) const {
    return load_far(columns_at[n] + j * kPlaces, nt == 1 || n * 8 < n_columns);
  }
  MONOLITH_DEVICE Words4 half_sums(int j, int n) const {
    return load_far(columns_at[n] + j * kPlaces + 4, nt == 1 || n * 8 < n_columns);
  }

 private:
  static constexpr int kPlaces = sizeof(Int8Block) / sizeof(Words4);
};

template <int mt, int nt>
struct FewShared {
  static constexpr int kRows = 16 * mt, kColumns = 8 * nt;
  float sums[kSegments][kColumns][kRows + 4];  // The padding of 4 avoids bank conflicts of a warp's stores.
};

// Prefetches a warp's part of its tile into the L2 cache, some KB ahead of the loads. The loads into registers alone
// are not enough to keep the memory busy, and without prefetching, a kernel that waits for its inputs could not load
// anything ahead of time. Each lane prefetches 128 bytes of a chunk: the first half of the lanes prefetches codes, the
// second half block scales. If chunks share block scales, each chunk prefetches its part of them. Nothing beyond the
// matrix is prefetched: that would be harmless but slow.
template <QuantShape S>
class Bringer {
 public:
  static constexpr int kAhead = form_of(S).low_bits == 8 ? 2 : 4;  // Prefetch distance in chunks.

  MONOLITH_DEVICE Bringer(const QuantLayout& layout, const unsigned char* tile) {
    constexpr int kPiece = 128;
    const bool numbers = lane_id() >= kWarp / 2;
    const int offset = lane_id() % (kWarp / 2) * kPiece;
    at_ = tile + (numbers ? layout.numbers_at() : 0) + offset;
    step_ = numbers ? layout.number_bytes / layout.number_chunks : layout.code_bytes;
    wanted_ = offset < step_;
  }
  MONOLITH_DEVICE void bring(int chunk, int end) const {
    bring_near(at_ + int64_t{chunk} * step_, wanted_ && chunk < end);
  }

 private:
  const unsigned char* at_;
  int step_;
  bool wanted_;
};

// GEMM kernel for few columns: each warp computes one segment of K, with `depth` chunks in flight.
template <QuantShape S, Numbers N, int mt, int nt, int depth>
__global__ void __launch_bounds__(kFewThreads, nt > 1 && form_of(S).low_bits == 2 ? 1 : 2)
    gemv_kernel(const QuantProduct product) {
  let_next_start();
  if (product.tiles) wait_for_inputs();  // The tile list, which selects a block's weights, is an input too.
  using Shared = FewShared<mt, nt>;
  Shared& shared = shared_memory<Shared>();
  const QuantLayout& layout = product.layout;
  const QuantTarget& target = target_of(product, static_cast<int>(blockIdx.x));
  const int64_t first_tile = (static_cast<int64_t>(blockIdx.x) - target.first_block) * mt;
  const Columns columns = columns_of(product, blockIdx.y, Shared::kColumns);
  if (columns.first >= columns.end) return wait_for_inputs();
  const int lane = lane_id();
  const int first = segment_begin(layout.n_chunks, warp_id()), end = segment_begin(layout.n_chunks, warp_id() + 1);

  const unsigned char* tiles[mt];
  MONOLITH_UNROLL
  for (int m = 0; m < mt; ++m) tiles[m] = tile_at(product, target, columns.expert, first_tile + m);
  TileCodes<S> codes[depth][mt];
  TileNumbers numbers[depth][mt];
  MONOLITH_UNROLL
  for (int d = 0; d < depth; ++d) {
    MONOLITH_UNROLL
    for (int m = 0; m < mt; ++m) {
      const Words4* const at = TileCodes<S>::place(layout, tiles[m], first + d);
      MONOLITH_UNROLL
      for (int j = 0; j < 4; ++j) codes[d][m].load_after(j, at, layout.high_bits, first + d < end);
      numbers[d][m] = load_numbers<S, N>(layout, tiles[m] + layout.numbers_at(), first + d, first + d < end);
    }
  }
  static_assert(mt == 1);
  const Bringer<S> bringer(layout, tiles[0]);
  MONOLITH_UNROLL
  for (int d = 0; d < bringer.kAhead; ++d) bringer.bring(first + depth + d, end);
  wait_for_inputs();
  const Constants constants = find_constants(product);
  float acc[mt][nt][4] = {};
  const int64_t stride = int64_t{layout.n_chunks} * 4;
  for (int from = first; from < end; from += depth) {
    MONOLITH_UNROLL
    for (int d = 0; d < depth; ++d) {
      const int chunk = from + d, next = chunk + depth, steps_left = steps_from(layout, chunk);
      if (chunk >= end) break;
      bringer.bring(next + bringer.kAhead, end);
      const FarInputs<nt> inputs(product.x + columns.first / 8 * stride + int64_t{chunk} * 4, stride,
                                 columns.end - columns.first);
      const Words4* next_codes[mt];
      ReadyNumbers now[mt];
      MONOLITH_UNROLL
      for (int m = 0; m < mt; ++m) {
        next_codes[m] = TileCodes<S>::place(layout, tiles[m], next);
        now[m] = ready<S, N>(numbers[d][m], chunk);
        numbers[d][m] = load_numbers<S, N>(layout, tiles[m] + layout.numbers_at(), next, next < end);
      }
      MONOLITH_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (j < steps_left) multiply<S, N>(layout, j, codes[d], now, inputs, constants, acc);
        MONOLITH_UNROLL
        for (int m = 0; m < mt; ++m) codes[d][m].load_after(j, next_codes[m], layout.high_bits, next < end);
      }
    }
  }
  MONOLITH_UNROLL
  for (int m = 0; m < mt; ++m) {
    MONOLITH_UNROLL
    for (int n = 0; n < nt; ++n) {
      MONOLITH_UNROLL
      for (int i = 0; i < 4; ++i)
        shared.sums[warp_id()][n * 8 + lane % 4 * 2 + i % 2][m * 16 + lane / 4 + i / 2 * 8] = acc[m][n][i];
    }
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < Shared::kRows * Shared::kColumns; at += kFewThreads) {
    const int64_t row = first_tile * kTileRows + at % Shared::kRows;
    const int column = at / Shared::kRows;
    if (row >= target.rows || columns.first + column >= columns.end) continue;
    float total = 0;
    for (int segment = 0; segment < kSegments; ++segment) total += shared.sums[segment][column][at % Shared::kRows];
    put_output(target, columns.expert, row, columns.first + column, total);
  }
}

// --- many columns ----------------------------------------------------------------------------------------------

constexpr int kManyThreads = 128, kManyGroups = tile_size(QuantKernel::kMany).columns / 8, kManyStages = 3;
// Number of column tiles that are adjacent in the order of the blocks, so that the weights that they share are still in
// the L2 cache.
constexpr int kColumnTiles = 16;

// The part of an Int8Block that a code kind needs, in units of 16 bytes: codes, columns, half sums.
template <QuantShape S>
struct NearBlock {
  static constexpr int kPieces = form_of(S).minima && form_of(S).step == 16 ? 24 : 20;
  Words4 pieces[kPieces];
};
template <QuantShape S>
struct ManyShared {
  NearBlock<S> stages[kManyStages][kManyGroups * 4];  // [columns / 8][step]
  Floats4 totals[2 * kManyGroups][kManyThreads];
};

template <QuantShape S>
struct NearInputs {
  static constexpr bool kOneColumn = false;
  Near codes_at, columns_at;  // Addresses for this lane in the first block.
  MONOLITH_DEVICE explicit NearInputs(const NearBlock<S>* blocks)
      : codes_at(hidden(near_address(reinterpret_cast<const Words2*>(blocks) + lane_id()))),
        columns_at(hidden(near_address(blocks->pieces + 16 + lane_id() % 4))) {}
  MONOLITH_DEVICE Words2 codes(int j, int n) const { return load_near2(codes_at, (n * 4 + j) * kBytes); }
  MONOLITH_DEVICE Words4 columns(int j, int n) const { return load_near4(columns_at, (n * 4 + j) * kBytes); }
  MONOLITH_DEVICE Words4 half_sums(int j, int n) const { return load_near4(columns_at, (n * 4 + j) * kBytes + 64); }

 private:
  static constexpr int kBytes = sizeof(NearBlock<S>);
};

// Starts copying one chunk of the inputs for all column groups; groups beyond the last become zeros.
template <QuantShape S>
MONOLITH_DEVICE void copy_inputs(NearBlock<S>* to, const QuantProduct& product, const Columns& columns, int chunk) {
  constexpr int kPieces = NearBlock<S>::kPieces;
  const int first = columns.first / 8, groups = (columns.end + 7) / 8, n_chunks = product.layout.n_chunks;
  MONOLITH_NO_UNROLL
  for (int at = static_cast<int>(threadIdx.x); at < kManyGroups * 4 * kPieces; at += kManyThreads) {
    const int block = at / kPieces, piece = at % kPieces, group = first + block / 4;
    const bool valid = group < groups;
    const Int8Block* const from = product.x + (int64_t{valid ? group : 0} * n_chunks + chunk) * 4 + block % 4;
    copy_async(&to[block].pieces[piece], reinterpret_cast<const Words4*>(from) + piece, valid);
  }
}

// GEMM kernel for many columns: each warp computes 32 rows, all columns of the tile, and all of K. Totals of completed
// segments are kept in shared memory.
template <QuantShape S, Numbers N>
__global__ void __launch_bounds__(kManyThreads, 2) gemm_kernel(const QuantProduct product) {
  let_next_start();
  if (product.tiles) wait_for_inputs();  // The tile list, which selects a block's weights, is an input too.
  using Shared = ManyShared<S>;
  constexpr int mt = 2, nt = kManyGroups;
  Shared& shared = shared_memory<Shared>();
  const QuantLayout& layout = product.layout;
  const Columns columns = columns_of(product, blockIdx.z * kColumnTiles + blockIdx.x, nt * 8);
  if (columns.first >= columns.end) return wait_for_inputs();
  const int lane = lane_id();
  const QuantTarget& target = target_of(product, static_cast<int>(blockIdx.y));
  const int64_t row_block = static_cast<int64_t>(blockIdx.y) - target.first_block;
  const int64_t first_tile = (row_block * (kManyThreads / kWarp) + warp_id()) * mt;

  const unsigned char* tiles[mt];
  TileCodes<S> codes[mt];
  TileNumbers numbers[mt];
  MONOLITH_UNROLL
  for (int m = 0; m < mt; ++m) {
    tiles[m] = tile_at(product, target, columns.expert, first_tile + m);
    const Words4* const at = TileCodes<S>::place(layout, tiles[m], 0);
    MONOLITH_UNROLL
    for (int j = 0; j < 4; ++j) codes[m].load_after(j, at, layout.high_bits, true);
    numbers[m] = load_numbers<S, N>(layout, tiles[m] + layout.numbers_at(), 0, true);
  }
  wait_for_inputs();
  MONOLITH_UNROLL
  for (int stage = 0; stage < kManyStages - 1; ++stage) {
    if (stage < layout.n_chunks) copy_inputs<S>(shared.stages[stage], product, columns, stage);
    copies_commit();
  }
  const Constants constants = find_constants(product);
  float acc[mt][nt][4] = {};
  int segment = 0, stage = 0;
  bool summed = false;  // Whether totals exist.
  for (int chunk = 0; chunk < layout.n_chunks; ++chunk) {
    copies_wait<kManyStages - 2>();
    __syncthreads();  // All warps have this chunk, and none still reads the previous one.
    const int later = chunk + kManyStages - 1;
    if (later < layout.n_chunks)
      copy_inputs<S>(shared.stages[stage == 0 ? kManyStages - 1 : stage - 1], product, columns, later);
    copies_commit();

    const bool more = chunk + 1 < layout.n_chunks;
    const int steps_left = steps_from(layout, chunk);
    const NearInputs<S> inputs(shared.stages[stage]);
    const Words4* next_codes[mt];
    ReadyNumbers now[mt];
    MONOLITH_UNROLL
    for (int m = 0; m < mt; ++m) {
      next_codes[m] = TileCodes<S>::place(layout, tiles[m], chunk + 1);
      now[m] = ready<S, N>(numbers[m], chunk);
      numbers[m] = load_numbers<S, N>(layout, tiles[m] + layout.numbers_at(), chunk + 1, more);
    }
    MONOLITH_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (j < steps_left) multiply<S, N>(layout, j, codes, now, inputs, constants, acc);
      MONOLITH_UNROLL
      for (int m = 0; m < mt; ++m) codes[m].load_after(j, next_codes[m], layout.high_bits, more);
    }
    stage = stage + 1 == kManyStages ? 0 : stage + 1;

    while (segment_begin(layout.n_chunks, segment + 1) <= chunk) ++segment;
    if (segment_begin(layout.n_chunks, segment + 1) != chunk + 1) continue;
    MONOLITH_UNROLL
    for (int m = 0; m < mt; ++m) {
      MONOLITH_UNROLL
      for (int n = 0; n < nt; ++n) {
        Floats4& total = shared.totals[m * nt + n][threadIdx.x];
        float(&own)[4] = acc[m][n];
        Floats4 sum{0, 0, 0, 0};
        if (summed) sum = total;
        total = {sum.x + own[0], sum.y + own[1], sum.z + own[2], sum.w + own[3]};
        MONOLITH_UNROLL
        for (int i = 0; i < 4; ++i) own[i] = 0;
      }
    }
    summed = true;
  }
  MONOLITH_UNROLL
  for (int m = 0; m < mt; ++m) {
    MONOLITH_UNROLL
    for (int n = 0; n < nt; ++n) {
      const Floats4 total = shared.totals[m * nt + n][threadIdx.x];
      const float values[4] = {total.x, total.y, total.z, total.w};
      MONOLITH_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int64_t row = (first_tile + m) * kTileRows + lane / 4 + i / 2 * 8;
        const int column = columns.first + n * 8 + lane % 4 * 2 + i % 2;
        if (row < target.rows && column < columns.end) put_output(target, columns.expert, row, column, values[i]);
      }
    }
  }
}

// --- launches --------------------------------------------------------------------------------------------------

template <QuantShape S, Numbers N>
void launch_product(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  QuantTileSize size = tile_size(kernel);
  if (kernel == QuantKernel::kStream && product.stream.columns > size.columns) size.columns = product.stream.columns;
  const QuantTarget& last = product.targets[product.n_targets - 1];
  const auto row_blocks = static_cast<unsigned>(last.first_block + (last.rows + size.rows - 1) / size.rows);
  const int tiles = product.tiles ? product.most_tiles : (product.n_columns + size.columns - 1) / size.columns;
  const auto column_tiles = static_cast<unsigned>(tiles);
  // Prefetch depth in chunks, for about 2 KB in flight per warp, as far as registers allow.
  constexpr int depth = form_of(S).low_bits == 8 ? 1 : 2;
  constexpr int some_depth = S == QuantShape::kS4 ? 2 : 1;
  const dim3 grid{row_blocks, column_tiles, 1};
  if (kernel == QuantKernel::kStream) return launch_stream<S, N>(runtime, product, row_blocks, column_tiles);
  if (kernel == QuantKernel::kFew)
    return launch(runtime, gemv_kernel<S, N, 1, 1, depth>, grid, kFewThreads, sizeof(FewShared<1, 1>), product);
  if (kernel == QuantKernel::kSome)
    return launch(runtime, gemv_kernel<S, N, 1, 4, some_depth>, grid, kFewThreads, sizeof(FewShared<1, 4>), product);
  const unsigned neighbors = column_tiles < kColumnTiles ? column_tiles : kColumnTiles;
  const dim3 many_grid{neighbors, row_blocks, (column_tiles + neighbors - 1) / neighbors};
  launch(runtime, gemm_kernel<S, N>, many_grid, kManyThreads, sizeof(ManyShared<S>), product);
}

}  // namespace monolith::cuda::quant
