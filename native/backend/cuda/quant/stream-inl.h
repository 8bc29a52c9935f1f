// GEMM kernel for few columns on Hopper, with persistent blocks. A multiprocessor runs one block with groups of 8
// warps. Each group computes one tile of 16 rows after another, and each warp of the group computes one segment of K.
// Every warp has a ring of stages in shared memory, which bulk copies fill. While the warp computes, and while sums are
// added up, the next data is already in flight, even if it belongs to the next tile. Inputs stay in shared memory for
// the kernel's lifetime, with space only for existing columns.
#pragma once

#include <algorithm>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/wgmma.h"
#include "backend/cuda/quant/tiles-inl.h"

namespace monolith::cuda::quant {

constexpr int kStreamThreads = kMaxStreamGroups * kSegments * kWarp;

// Each group of warps adds up the sums in one of two buffers while the other buffer is being filled.
constexpr int kStreamBuffers = 2;
template <int kColumns>
struct StreamSums {
  float of[kSegments][kColumns][kTileRows + 4];  // The padding of 4 avoids bank conflicts of a warp's stores.
};
// The barriers are at the start of shared memory, followed by sums, rings and inputs. stream_shared_bytes() returns the
// total size.
struct StreamBarriers {
  Barrier done[kMaxStreamGroups][kStreamBuffers], free[kMaxStreamGroups][kStreamBuffers];
  Barrier full[kMaxStreamGroups * kSegments][kMaxStreamStages];
};
static_assert(sizeof(StreamBarriers) == kStreamBarrierBytes && sizeof(StreamSums<1>) == kStreamSumBytes);

// The part of a step's inputs for `kColumns` columns, in units of 16 bytes: codes, columns, half sums.
template <QuantShape S, int kColumns>
struct StreamInput {
  static constexpr int kGroups = (kColumns + 7) / 8;  // Groups of 8 columns.
  static constexpr int kPairs = (kColumns + 1) / 2;
  static constexpr int kCodes = 2 * kColumns, kBytes = stream_step_bytes(S, kColumns), kPieces = kBytes / 16;
};

// Reads inputs from shared memory. Lanes of columns that do not exist read the last column.
template <QuantShape S, int kColumns>
struct StreamInputs {
  using Layout = StreamInput<S, kColumns>;
  static constexpr bool kOneColumn = kColumns == 1;
  Near codes_at, columns_at;
  MONOLITH_DEVICE explicit StreamInputs(Near base) {
    const int g = lane_id() / 4, t = lane_id() % 4;
    codes_at = base + (g < kColumns ? g : kColumns - 1) * 32 + t * 8;
    columns_at = base + (Layout::kCodes + (t < Layout::kPairs ? t : Layout::kPairs - 1)) * 16;
  }
  MONOLITH_DEVICE void next_chunk(int chunks) {
    codes_at += chunks * (4 * Layout::kBytes);
    columns_at += chunks * (4 * Layout::kBytes);
  }
  MONOLITH_DEVICE Words2 codes(int j, int n) const { return load_near2(codes_at, j * Layout::kBytes + n * 256); }
  MONOLITH_DEVICE Words4 columns(int j, int n) const { return load_near4(columns_at, j * Layout::kBytes + n * 64); }
  MONOLITH_DEVICE Words4 half_sums(int j, int n) const {
    return load_near4(columns_at, j * Layout::kBytes + Layout::kPairs * 16 + n * 64);
  }
};

#if MONOLITH_WGMMA

// A warp's position in its stream: a tile of the group, and a pair of chunks in it.
struct StreamPlace {
  int unit, pair;
};

template <QuantShape S, Numbers N, int kColumns>
MONOLITH_DEVICE void stream(const QuantProduct& product, int units) {
  using Input = StreamInput<S, kColumns>;
  const QuantLayout& layout = product.layout;
  const int groups = product.stream.groups, stages = product.stream.stages;
  const int stage_bytes = stream_stage_bytes(layout), numbers_at = 2 * layout.code_bytes;
  StreamBarriers& shared = shared_memory<StreamBarriers>();
  auto* const all_sums = reinterpret_cast<StreamSums<kColumns>*>(&shared + 1);
  auto* const rings = reinterpret_cast<unsigned char*>(all_sums + groups * kStreamBuffers);
  const int warp = warp_id(), lane = lane_id(), group = warp / kSegments, segment = warp % kSegments;
  unsigned char* const ring = rings + warp * stages * stage_bytes;
  unsigned char* const inputs_at = rings + groups * kSegments * stages * stage_bytes;
  if (threadIdx.x == 0) {
    for (int g = 0; g < groups; ++g) {
      for (int i = 0; i < kStreamBuffers; ++i) {
        barrier_init(shared.done[g][i], kSegments);
        barrier_init(shared.free[g][i], 1);
      }
      for (int w = 0; w < kSegments; ++w)
        for (int i = 0; i < stages; ++i) barrier_init(shared.full[g * kSegments + w][i], 1);
    }
    barrier_inits_done();
  }
  __syncthreads();
  const Columns columns = columns_of(product, blockIdx.y, kColumns < 8 ? 8 : kColumns);
  if (columns.first >= columns.end) return wait_for_inputs();

  const int first = segment_begin(layout.n_chunks, segment), end = segment_begin(layout.n_chunks, segment + 1);
  const int first_pair = first / 2, end_pair = (end + 1) / 2;
  const int step_units = static_cast<int>(gridDim.x) * groups;
  const int first_unit = group * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);

  // A single lane of each warp is the producer, which starts the copies.
  StreamPlace ahead{first == end ? units : first_unit, first_pair};
  const unsigned char* ahead_tile = nullptr;
  const auto find_tile = [&](int unit) {
    const QuantTarget& target = target_of(product, unit);
    return tile_at(product, target, columns.expert, unit - target.first_block);
  };
  if (ahead.unit < units) ahead_tile = find_tile(ahead.unit);
  int ahead_stage = 0;
  const auto produce = [&] {  // Does nothing at the end of the stream.
    if (ahead.unit >= units) return;
    Barrier& full = shared.full[warp][ahead_stage];
    unsigned char* const stage = ring + ahead_stage * stage_bytes;
    const int chunk = ahead.pair * 2, from = chunk < first ? first : chunk, to = chunk + 2 < end ? chunk + 2 : end;
    const int code_bytes = (to - from) * layout.code_bytes;
    const bool shared_numbers = layout.number_chunks == 2;
    const int number_bytes = shared_numbers ? layout.number_bytes : (to - from) * layout.number_bytes;
    const int64_t numbers_from =
        layout.numbers_at() + int64_t{shared_numbers ? ahead.pair : from} * layout.number_bytes;
    barrier_arrive_expecting(full, code_bytes + number_bytes);
    copy_bulk<Source::kConstant>(stage + (from - chunk) * layout.code_bytes,
                                 ahead_tile + int64_t{from} * layout.code_bytes, code_bytes, full);
    copy_bulk<Source::kConstant>(stage + numbers_at + (shared_numbers ? 0 : (from - chunk) * layout.number_bytes),
                                 ahead_tile + numbers_from, number_bytes, full);
    if (++ahead_stage == stages) ahead_stage = 0;
    if (++ahead.pair == end_pair) {
      ahead.pair = first_pair;
      ahead.unit += step_units;
      if (ahead.unit < units) ahead_tile = find_tile(ahead.unit);
    }
  };
  if (lane == 0) {
    MONOLITH_ROLLED
    for (int i = 0; i < stages; ++i) produce();
  }
  __syncwarp();
  wait_for_inputs();
  {
    const Int8Block* const from = product.x + int64_t{columns.first / 8} * layout.n_chunks * 4;
    const int pieces = layout.n_chunks * 4 * Input::kPieces;
    MONOLITH_ROLLED
    for (int at = static_cast<int>(threadIdx.x); at < pieces; at += static_cast<int>(blockDim.x)) {
      const int step = at / Input::kPieces, piece = at % Input::kPieces;
      // The index within this kind of data (codes, columns or half sums), and the number of 16-byte units of this kind
      // per group of columns.
      int of_group = piece, each = 16, begin = 0;
      if (piece >= Input::kCodes) of_group -= Input::kCodes, each = 4, begin = 16;
      if (piece >= Input::kCodes + Input::kPairs) of_group -= Input::kPairs, begin = 20;
      const int column_group = Input::kGroups == 1 ? 0 : of_group / each;
      const Int8Block* const block = from + int64_t{column_group} * layout.n_chunks * 4 + step;
      copy_async(inputs_at + at * 16, reinterpret_cast<const Words4*>(block) + begin + (of_group - column_group * each),
                 columns.first + column_group * 8 < columns.end);
    }
    copies_commit();
    copies_wait<0>();
  }
  __syncthreads();
  const Constants constants = find_constants(product);
  StreamInputs<S, kColumns> inputs_of_segment(near_address(inputs_at));
  inputs_of_segment.next_chunk(first);

  int stage_number = 0, parity = 0, tile = 0;
  MONOLITH_ROLLED
  for (int unit = first_unit; unit < units; unit += step_units, ++tile) {
    float acc[1][Input::kGroups][4] = {};
    StreamInputs<S, kColumns> inputs = inputs_of_segment;
    MONOLITH_ROLLED
    for (int pair = first_pair; pair < end_pair && first < end; ++pair) {
      barrier_wait(shared.full[warp][stage_number], parity);
      const unsigned char* const stage = ring + stage_number * stage_bytes;
      MONOLITH_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int chunk = pair * 2 + half;
        if (chunk < first || chunk >= end) continue;
        TileCodes<S> codes[1];
        codes[0].load_near(near_address(stage + half * layout.code_bytes), layout.high_bits);
        const ReadyNumbers numbers[1] = {
            ready<S, N>(load_near_numbers<S, N>(near_address(stage + numbers_at), half), half)};
        const int steps_left = steps_from(layout, chunk);
        if (steps_left >= 4) {
          MONOLITH_UNROLL
          for (int j = 0; j < 4; ++j) multiply<S, N>(layout, j, codes, numbers, inputs, constants, acc);
        } else {
          MONOLITH_UNROLL
          for (int j = 0; j < 4; ++j)
            if (j < steps_left) multiply<S, N>(layout, j, codes, numbers, inputs, constants, acc);
        }
        inputs.next_chunk(1);
      }
      __syncwarp();  // All lanes have read the stage.
      if (lane == 0) produce();
      __syncwarp();
      if (++stage_number == stages) stage_number = 0, parity ^= 1;
    }
    const int buffer = tile % kStreamBuffers, round = tile / kStreamBuffers % 2;
    auto& sums = all_sums[group * kStreamBuffers + buffer].of;
    barrier_wait(shared.free[group][buffer], round ^ 1);  // Returns immediately in the first round.
    MONOLITH_UNROLL
    for (int n = 0; n < Input::kGroups; ++n) {
      MONOLITH_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + lane % 4 * 2 + i % 2;
        if (column < kColumns) sums[segment][column][lane / 4 + i / 2 * 8] = acc[0][n][i];
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.done[group][buffer]);
    if (tile % kSegments != segment) continue;
    barrier_wait(shared.done[group][buffer], round);
    const QuantTarget& target = target_of(product, unit);
    const int64_t row = (int64_t{unit} - target.first_block) * kTileRows + lane % kTileRows;
    for (int column = lane / kTileRows; column < kColumns && columns.first + column < columns.end; column += 2) {
      float total = 0;
      MONOLITH_UNROLL
      for (int i = 0; i < kSegments; ++i) total += sums[i][column][lane % kTileRows];
      if (row < target.rows) put_output(target, columns.expert, row, columns.first + column, total);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.free[group][buffer]);
  }
}

#endif

// For few columns, the register limit allows two blocks per multiprocessor, although for most types shared memory has
// room for only one. Kernels were measured to be faster with this limit.
template <QuantShape S, Numbers N, int kColumns>
__global__ void __launch_bounds__(kStreamThreads, kColumns <= 8 ? 2 : 1)
    stream_kernel(const QuantProduct product, [[maybe_unused]] int units) {
  let_next_start();
#if MONOLITH_WGMMA
  if (product.tiles) wait_for_inputs();  // The tile list, which selects a block's weights, is an input too.
  stream<S, N, kColumns>(product, units);
#else
  wait_for_inputs();
#endif
}

template <QuantShape S, Numbers N, int kColumns>
void launch_stream(Runtime& runtime, const QuantProduct& product, unsigned units, unsigned column_tiles) {
  // Uses as many blocks as multiprocessors, even if half of them have no second tile. With fewer blocks, two blocks of
  // the next kernel would share a multiprocessor.
  const unsigned places = static_cast<unsigned>(std::max(runtime.device().multiprocessors, 1)) / column_tiles;
  const dim3 grid{std::max(std::min(units, places), 1u), column_tiles, 1};
  launch(runtime, stream_kernel<S, N, kColumns>, grid, product.stream.groups * kSegments * kWarp,
         stream_shared_bytes(product.layout, product.stream), product, static_cast<int>(units));
}
template <QuantShape S, Numbers N>
void launch_stream(Runtime& runtime, const QuantProduct& product, unsigned units, unsigned column_tiles) {
  switch (product.stream.columns) {
    case 1: return launch_stream<S, N, 1>(runtime, product, units, column_tiles);
    case 2: return launch_stream<S, N, 2>(runtime, product, units, column_tiles);
    case 4: return launch_stream<S, N, 4>(runtime, product, units, column_tiles);
    case 8: return launch_stream<S, N, 8>(runtime, product, units, column_tiles);
    default: return launch_stream<S, N, 16>(runtime, product, units, column_tiles);
  }
}

}  // namespace monolith::cuda::quant
