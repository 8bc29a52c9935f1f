// Float32 attention to MLA latents. A block computes sixteen heads of one token, and each of its warps two heads. The
// rows of a page are expanded to float32 in shared memory once for all heads. A warp scores the sixteen positions of a
// page in parallel, and then adds up their values.
#include "backend/cuda/attention/latents.h"

#include "backend/cuda/attention/kv_bytes.h"
#include "backend/cuda/attention/lists.h"
#include "backend/cuda/attention/seen.h"
#include "backend/cuda/attention/walk_feed.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kWarpHeads = 2, kHeads = kWarps * kWarpHeads;  // Heads per block.
static_assert(kWarpHeads * kPageTokens == kWarp, "each lane holds one head's score for one position");

// Each lane of a warp holds kPieces values of a row, so the latent dimension is at most kPieces * 32.
template <int kPieces>
struct LatentShared {
  float rows[kPageTokens][kPieces * kWarp];  // Zeros beyond the latent dimension.
  float weights[kWarps][kWarp];
};

// The work for one token: a range of chunks of the attended positions.
struct LatentWork {
  int64_t row;
  int position;  // Index of the last attended position, counted among the attended positions.
  int at;        // The token's own position.
  int last;      // The last position visible to the token.
  const int32_t* pages;
  const int32_t* chosen;  // The selected positions for sparse attention; null if all positions are attended to.
  int first_chunk, end_chunk;
  int slot;  // Slot of the partial result; -1 if the work covers the whole context.
};

// The partial result of a warp's two heads for a range of positions. Weighted sums of values are spread over lanes.
// Each half of the warp holds the largest score and the sum of weights of one head, the same in all its lanes.
template <int kPieces>
struct LatentSums {
  float of[kWarpHeads][kPieces];
  float largest = -INFINITY, total = 0;

  MONOLITH_DEVICE void clear() {
    MONOLITH_UNROLL
    for (int h = 0; h < kWarpHeads; ++h) MONOLITH_UNROLL
    for (int j = 0; j < kPieces; ++j) of[h][j] = 0;
    largest = -INFINITY;
    total = 0;
  }
  // Merges the result of a later range into this one.
  MONOLITH_DEVICE void add(const LatentSums& later) {
    const Joined own = join(largest, total, later.largest, later.total);
    MONOLITH_UNROLL
    for (int h = 0; h < kWarpHeads; ++h) {
      const float kept = __shfl_sync(kWholeWarp, own.kept, h * kPageTokens);
      const float added = __shfl_sync(kWholeWarp, own.added, h * kPageTokens);
      MONOLITH_UNROLL
      for (int j = 0; j < kPieces; ++j) of[h][j] = fmaf(of[h][j], kept, later.of[h][j] * added);
    }
  }
};

// Sums each of 32 values over all lanes. Lane i receives the sum of value i.
MONOLITH_DEVICE float sum_numbers(float (&x)[kWarp]) {
  MONOLITH_UNROLL
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const bool upper = (lane_id() & distance) != 0;
    MONOLITH_UNROLL
    for (int i = 0; i < distance; ++i) {
      const float kept = upper ? x[i + distance] : x[i], given = upper ? x[i] : x[i + distance];
      x[i] = kept + __shfl_xor_sync(kWholeWarp, given, distance);
    }
  }
  return x[0];
}

template <KvType type, int kPieces>
class LatentWarp {
 public:
  MONOLITH_DEVICE LatentWarp(const KvView& cache, const AttentionParams& params, LatentShared<kPieces>& shared)
      : cache_(cache), params_(params), shared_(shared) {}

  // Called by all warps of a block with the same work. `head` is the warp's first head, and `n` is its number of valid
  // heads.
  MONOLITH_DEVICE void run(const LatentWork& work, const float* q, int64_t q_stride, int head, int n, float* out,
                           int64_t out_stride, float* sums) {
    load_queries(q + work.row * q_stride, head, n);
    const int first = first_seen(work.at, params_);
    factor_ = params_.scale * temperature(work.at, params_) * kLog2E;
    LatentSums<kPieces> group;
    group.clear();
    float largest = -INFINITY, total = 0;  // Running softmax maximum and sum of the token.
    bool begun = false;
    int chunk = first / kChunkPositions;
    if (chunk < work.first_chunk) chunk = work.first_chunk;
    for (; chunk < work.end_chunk; ++chunk) {
      group.add(chunk_sums(work, chunk, first));
      const bool last = chunk + 1 == work.end_chunk;
      if (!last && (chunk + 1) % kGroupChunks != 0) continue;
      if (work.slot >= 0) {  // A partial result lies within one group.
        write(out, 0, n, [&](int h, int j, float) { return group.of[h][j]; });
        if (lane_id() % kPageTokens == 0 && lane_id() / kPageTokens < n) {
          sums[2 * (lane_id() / kPageTokens)] = group.largest;
          sums[2 * (lane_id() / kPageTokens) + 1] = group.total;
        }
        return;
      }
      const Joined own = join(largest, total, group.largest, group.total);
      float kept[kWarpHeads], added[kWarpHeads], inverse[kWarpHeads];
      MONOLITH_UNROLL
      for (int h = 0; h < kWarpHeads; ++h) {
        kept[h] = __shfl_sync(kWholeWarp, own.kept, h * kPageTokens);
        added[h] = __shfl_sync(kWholeWarp, own.added, h * kPageTokens);
        inverse[h] = 1.0f / __shfl_sync(kWholeWarp, total, h * kPageTokens);
      }
      write(out, out_stride, n, [&](int h, int j, float before) {
        const float sum = fmaf(begun ? before : 0.0f, kept[h], group.of[h][j] * added[h]);
        return last ? finished(sum, inverse[h]) : sum;
      });
      begun = true;
      group.clear();
    }
  }

 private:
  MONOLITH_DEVICE void load_queries(const float* q, int head, int n) {
    MONOLITH_UNROLL
    for (int h = 0; h < kWarpHeads; ++h) MONOLITH_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      const int d = lane_id() + j * kWarp;
      queries_[h][j] = h < n && d < cache_.head_dim ? q[static_cast<int64_t>(head + h) * cache_.head_dim + d] : 0.0f;
    }
  }
  // Replaces each result of the warp's heads with value(head, piece, old result). The results of the heads are
  // value_dim apart.
  template <typename Value>
  MONOLITH_DEVICE void write(float* out, int64_t, int n, const Value& value) const {
    MONOLITH_UNROLL
    for (int h = 0; h < kWarpHeads; ++h) MONOLITH_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      const int d = lane_id() + j * kWarp;
      if (h >= n || d >= cache_.value_dim) continue;
      float& to = out[h * cache_.value_dim + d];
      to = value(h, j, to);
    }
  }

  // Expands sixteen of the attended rows to float32 in shared memory, using all threads of the block.
  MONOLITH_DEVICE void open_page(const LatentWork& work, int page) {
    constexpr int kDims = kPieces * kWarp;
    __syncthreads();  // All warps have read the previous rows.
    for (int i = static_cast<int>(threadIdx.x); i < kPageTokens * kDims; i += kThreads) {
      const int row = i / kDims, d = i % kDims, number = page * kPageTokens + row;
      // Memory beyond the last position may hold any data.
      const bool inside = d < cache_.head_dim && number <= work.position;
      float value = 0;
      if (inside) {
        const int position = work.chosen ? work.chosen[number] : number;
        const unsigned char* const from = cache_.data + work.pages[position / kPageTokens] * cache_.page_bytes;
        value = kept_value<type>(from, position % kPageTokens, d, cache_.head_dim);
      }
      shared_.rows[row][d] = value;
    }
    __syncthreads();
  }

  MONOLITH_DEVICE LatentSums<kPieces> chunk_sums(const LatentWork& work, int chunk, int first) {
    LatentSums<kPieces> own;
    own.clear();
    const int lane = lane_id(), begin = chunk * kChunkPositions;
    const int from = begin > first ? begin : first;
    const int to = begin + kChunkPositions - 1 < work.position ? begin + kChunkPositions - 1 : work.position;
    for (int page = from / kPageTokens; page <= to / kPageTokens; ++page) {
      open_page(work, page);
      const int position = page * kPageTokens + lane % kPageTokens;
      const bool seen = position >= first && position <= work.position;
      const float score = seen ? scores() * factor_ : (static_cast<void>(scores()), -INFINITY);
      float largest = score;  // The largest score of the half-warp's positions.
      for (int distance = kPageTokens / 2; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(kWholeWarp, largest, distance);
        largest = largest > other ? largest : other;
      }
      const float now = own.largest > largest ? own.largest : largest;
      const float base = now == -INFINITY ? 0.0f : now;
      const float weight = fast_exp2(score - base), kept = fast_exp2(own.largest - base);
      float total = weight;
      for (int distance = kPageTokens / 2; distance > 0; distance /= 2)
        total += __shfl_xor_sync(kWholeWarp, total, distance);
      own.total = fmaf(own.total, kept, total);
      own.largest = now;
      float* const weights = shared_.weights[warp_id()];
      __syncwarp();
      weights[lane] = weight;
      __syncwarp();
      MONOLITH_UNROLL
      for (int h = 0; h < kWarpHeads; ++h) {
        const float kept_of_head = __shfl_sync(kWholeWarp, kept, h * kPageTokens);
        MONOLITH_UNROLL
        for (int j = 0; j < kPieces; ++j) own.of[h][j] *= kept_of_head;
      }
      for (int slot = 0; slot < kPageTokens; ++slot) {
        const float* const row = shared_.rows[slot];
        const float low = weights[slot], high = weights[kPageTokens + slot];
        MONOLITH_UNROLL
        for (int j = 0; j < kPieces; ++j) {
          const float value = row[lane + j * kWarp];
          own.of[0][j] = fmaf(low, value, own.of[0][j]);
          own.of[1][j] = fmaf(high, value, own.of[1][j]);
        }
      }
    }
    return own;
  }

  // Returns the scores for the current page: lane 16 h + slot gets the score of head h for that slot.
  MONOLITH_DEVICE float scores() const {
    float sums[kWarp];
    MONOLITH_UNROLL
    for (int slot = 0; slot < kPageTokens; ++slot) {
      float low = 0, high = 0;
      MONOLITH_UNROLL
      for (int j = 0; j < kPieces; ++j) {
        const float value = shared_.rows[slot][lane_id() + j * kWarp];
        low = fmaf(queries_[0][j], value, low);
        high = fmaf(queries_[1][j], value, high);
      }
      sums[slot] = low;
      sums[kPageTokens + slot] = high;
    }
    return sum_numbers(sums);
  }

  const KvView& cache_;
  const AttentionParams& params_;
  LatentShared<kPieces>& shared_;
  float queries_[kWarpHeads][kPieces];
  float factor_ = 0;
};

// Parameters of all kernels of this file.
struct LatentLaunch {
  Lists lists;
  const DeviceSegment* segments;
  const float* q;
  int64_t q_stride;
  int32_t n_heads;
  KvView cache;
  AttentionParams params;
  float* out;
  int64_t out_stride;
  float* partial;
  float* partial_sums;
};

// Returns the index of the last position to which a token attends, counted among the positions to which it attends.
// `last` is the last position visible to the token.
MONOLITH_DEVICE int last_attended(int last, const AttentionParams& params) {
  return params.chosen && last >= params.most_chosen ? params.most_chosen - 1 : last;
}

template <KvType type, int kPieces>
MONOLITH_DEVICE void run_row(const LatentLaunch& launch, LatentWork work, int part, LatentShared<kPieces>& shared) {
  const AttentionParams& params = launch.params;
  work.position = last_attended(work.last, params);
  work.chosen = work.position == work.last
                    ? nullptr
                    : reinterpret_cast<const int32_t*>(params.chosen) + work.row * params.most_chosen;
  const int end_chunk = work.position / kChunkPositions + 1;
  if (work.end_chunk > end_chunk) work.end_chunk = end_chunk;
  const int head = part * kHeads + warp_id() * kWarpHeads, left = launch.n_heads - head;
  const int n = left < 0 ? 0 : left < kWarpHeads ? left : kWarpHeads;
  const int64_t first = static_cast<int64_t>(head) * launch.cache.value_dim;
  float* out = launch.out + work.row * launch.out_stride + first;
  float* sums = nullptr;
  if (work.slot >= 0) {
    const int64_t place = static_cast<int64_t>(work.slot) * launch.n_heads;
    out = launch.partial + place * launch.cache.value_dim + first;
    sums = launch.partial_sums + 2 * (place + head);
  }
  LatentWarp<type, kPieces>(launch.cache, launch.params, shared)
      .run(work, launch.q, launch.q_stride, head, n, out, launch.out_stride, sums);
}

template <KvType type, int kPieces>
__global__ void __launch_bounds__(kThreads) items_kernel(const __grid_constant__ LatentLaunch launch) {
  start_after_inputs();
  auto& shared = shared_memory<LatentShared<kPieces>>();
  const AttentionHeader header = *launch.lists.header;
  const int parts = (launch.n_heads + kHeads - 1) / kHeads;
  for (int at = static_cast<int>(blockIdx.x); at < header.n_items * parts; at += static_cast<int>(gridDim.x)) {
    const AttentionItem item = launch.lists.items(header)[at / parts];
    run_row<type>(launch,
                  {.row = item.row,
                   .position = 0,
                   .at = item.position,
                   .last = item.position,
                   .pages = launch.lists.base + item.first_page,
                   .chosen = nullptr,
                   .first_chunk = item.first_chunk,
                   .end_chunk = item.end_chunk,
                   .slot = item.slot},
                  at % parts, shared);
  }
}

// Computes the tokens of the tiles. Each token has its own thread blocks, and the longest contexts come first.
template <KvType type, int kPieces>
__global__ void __launch_bounds__(kThreads) tiles_kernel(const __grid_constant__ LatentLaunch launch) {
  start_after_inputs();
  auto& shared = shared_memory<LatentShared<kPieces>>();
  const int parts = (launch.n_heads + kHeads - 1) / kHeads;
  const int at = static_cast<int>(blockIdx.x) / parts, part = static_cast<int>(blockIdx.x) % parts;
  const auto* const tiles = reinterpret_cast<const AttentionTile*>(launch.lists.base + launch.lists.header->tiles);
  const AttentionTile tile = tiles[at / kTileTokens];
  const DeviceSegment segment = launch.segments[tile.segment];
  const int token = tile.first_token + kTileTokens - 1 - at % kTileTokens;
  if (token >= segment.n_tokens) return;
  const int position = segment.first_position + token, last = segment.last_seen(position);
  run_row<type>(launch,
                {.row = segment.first_row + token,
                 .position = 0,
                 .at = position,
                 .last = last,
                 .pages = launch.lists.base + segment.first_page,
                 .chosen = nullptr,
                 .first_chunk = 0,
                 .end_chunk = last / kChunkPositions + 1,
                 .slot = -1},
                part, shared);
}

constexpr int kAddThreads = 256;

// Launched with one block per split token and head. Merges partial results: chunks into groups, and groups into the
// row, in the same order as the other kernels.
__global__ void __launch_bounds__(kAddThreads) add_kernel(const __grid_constant__ LatentLaunch launch) {
  start_after_inputs();
  const AttentionHeader header = *launch.lists.header;
  const int head = static_cast<int>(blockIdx.y), dim = launch.cache.value_dim;
  for (int at = static_cast<int>(blockIdx.x); at < header.n_splits; at += static_cast<int>(gridDim.x)) {
    const AttentionSplit split = launch.lists.splits(header)[at];
    const int first_chunk = first_seen(split.position, launch.params) / kChunkPositions;
    const int last_chunk = last_attended(split.position, launch.params) / kChunkPositions;
    for (int d = static_cast<int>(threadIdx.x); d < dim; d += kAddThreads) {
      float value = 0, largest = -INFINITY, total = 0;  // Running output value, softmax maximum and sum.
      for (int group = first_chunk / kGroupChunks; group <= last_chunk / kGroupChunks; ++group) {
        int begin = group, end = group + 1;  // Range of slots.
        if (!split.by_group) {
          begin = group * kGroupChunks > first_chunk ? group * kGroupChunks : first_chunk;
          end = (group + 1) * kGroupChunks < last_chunk + 1 ? (group + 1) * kGroupChunks : last_chunk + 1;
        }
        float sum = 0, group_largest = -INFINITY, group_total = 0;
        for (int slot = begin; slot < end; ++slot) {
          const int64_t place = static_cast<int64_t>(split.first_slot + slot) * launch.n_heads + head;
          const Joined own =
              join(group_largest, group_total, launch.partial_sums[2 * place], launch.partial_sums[2 * place + 1]);
          sum = fmaf(sum, own.kept, launch.partial[place * dim + d] * own.added);
        }
        const Joined own = join(largest, total, group_largest, group_total);
        value = fmaf(value, own.kept, sum * own.added);
      }
      launch.out[split.row * launch.out_stride + static_cast<int64_t>(head) * dim + d] = finished(value, 1.0f / total);
    }
  }
}

template <KvType type, int kPieces>
void launch_latents(Runtime& runtime, const LatentLaunch& work, const RowList& rows) {
  using Shared = LatentShared<kPieces>;
  static_assert(sizeof(Shared) <= 99 << 10, "the smallest supported GPUs have 99 KB of shared memory");
  const auto parts = static_cast<unsigned>((work.n_heads + kHeads - 1) / kHeads);
  if (rows.n_tiles > 0) {
    const dim3 grid{static_cast<unsigned>(rows.n_tiles) * kTileTokens * parts, 1, 1};
    launch(runtime, tiles_kernel<type, kPieces>, grid, kThreads, sizeof(Shared), work);
  }
  if (!rows.has_items) return;
  const auto multiprocessors = static_cast<unsigned>(runtime.device().multiprocessors);
  launch(runtime, items_kernel<type, kPieces>, dim3{2 * multiprocessors, 1, 1}, kThreads, sizeof(Shared), work);
  if (!rows.has_splits) return;
  const auto most_splits = static_cast<unsigned>(rows.n_rows < 8 ? rows.n_rows : 8);
  launch(runtime, add_kernel, dim3{most_splits, static_cast<unsigned>(work.n_heads), 1}, kAddThreads, 0, work);
}

template <KvType type>
void launch_by_size(Runtime& runtime, const LatentLaunch& work, const RowList& rows) {
  static_assert(kMaxLatentDims == 32 * kWarp);
  const auto launch_it = work.cache.head_dim <= 64    ? launch_latents<type, 2>
                         : work.cache.head_dim <= 320 ? launch_latents<type, 10>
                         : work.cache.head_dim <= 576 ? launch_latents<type, 18>
                                                      : launch_latents<type, kMaxLatentDims / kWarp>;
  launch_it(runtime, work, rows);
}

}  // namespace

void attention_latents(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call, KvType type) {
  const RowList& rows = *call.rows;
  const LatentLaunch work{.lists = {rows.work, rows.pages},
                          .segments = rows.segments,
                          .q = call.q,
                          .q_stride = call.q_stride,
                          .n_heads = call.n_heads,
                          .cache = call.cache,
                          .params = call.params,
                          .out = call.out,
                          .out_stride = call.out_stride,
                          .partial = scratch.values(),
                          .partial_sums = scratch.sums(call.n_heads * call.cache.value_dim)};
  const auto launch_it = type == KvType::kF32    ? launch_by_size<KvType::kF32>
                         : type == KvType::kF16  ? launch_by_size<KvType::kF16>
                         : type == KvType::kQ8_0 ? launch_by_size<KvType::kQ8_0>
                                                 : launch_by_size<KvType::kFp8>;
  launch_it(runtime, work, rows);
}

}  // namespace monolith::cuda
