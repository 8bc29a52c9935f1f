// Attention for single tokens, as in decoding. One warp computes the query heads of one KV head (16 at a time) for one
// token and a range of KV chunks, independently of other warps. Tokens whose context is split over several warps
// produce partial results, which a second kernel merges. Included by the files that each instantiate the kernels for
// one KV cache type.
//
// A tensor core product always has 16 rows, regardless of the number of query heads. With four query heads per KV head,
// 12 of 16 rows are wasted. Even so, a multiprocessor computes several times faster than its share of the memory
// bandwidth delivers data.
#pragma once

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/lists.h"
#include "backend/cuda/attention/walk.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

template <typename Shape, int warps>
struct ItemsShared {
  WalkRing<Shape> rings[warps];
  WalkOwn<Shape> own[warps];
};

// Prefetches the keys and values of a chunk into the L2 cache. The prefetch may run before the last keys and values are
// written and before the kernel may read any. This is safe because all multiprocessors share the L2 cache and later
// writes go to it as well.
MONOLITH_DEVICE void bring_chunk(const WalkSource& source, int64_t head_bytes, int chunk) {
  constexpr int kPages = kChunkPositions / kPageTokens, kSharers = kWarp / kPages, kPiece = 128;
  const int page = chunk * kPages + lane_id() / kSharers;
  if (page * kPageTokens > source.last || (page + 1) * kPageTokens <= source.first) return;
  const unsigned char* const keys = source.keys + source.pages[page] * source.page_bytes;
  for (int64_t at = lane_id() % kSharers * kPiece; at < head_bytes; at += kSharers * kPiece) {
    bring_near(keys + at, true);
    bring_near(keys + source.values + at, true);
  }
}
constexpr int kFewItems = 256;  // Number of work items whose chunks fit in the L2 cache.

template <typename Shape, int warps>
__global__ void __launch_bounds__(warps* kWarp)
    items_kernel(Lists lists, const float* q, int64_t q_stride, int n_heads, KvView cache, AttentionParams params,
                 float* out, int64_t out_stride, ProductInput input, float* partial, float* partial_sums) {
  let_next_start();
  auto& shared = shared_memory<ItemsShared<Shape, warps>>();
  const int warp = warp_id();
  // The work lists are written by memory copies rather than by the preceding kernel, so they may be read before the
  // inputs are complete.
  const AttentionHeader header = *lists.header;
  const int group = n_heads / cache.n_kv_heads, parts = (group + 15) / 16;
  const int per_item = cache.n_kv_heads * parts;
  // Consecutive items are assigned to different thread blocks: items that are neighbors in the list read neighboring
  // memory and run at the same time on different multiprocessors.
  const int workers = static_cast<int>(gridDim.x) * warps;
  const int worker = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const auto source_of = [&](const AttentionItem& item, int kv_head) {
    return WalkSource{.keys = cache.data + kv_head * cache.head_bytes,
                      .values = cache.values,
                      .page_bytes = cache.page_bytes,
                      .pages = lists.base + item.first_page,
                      .first = first_seen(item.position, params),
                      .last = item.position};
  };
  const auto first_chunk_of = [](const AttentionItem& item, const WalkSource& source) {
    const int seen = source.first / kChunkPositions;
    return item.first_chunk > seen ? item.first_chunk : seen;
  };
  // With few work items, each item is about one chunk long. This is too short for the kernel's own copies to hide their
  // latency.
  if (worker < header.n_items * per_item && header.n_items * per_item <= kFewItems) {
    const AttentionItem item = lists.items(header)[worker / per_item];
    const WalkSource source = source_of(item, worker % per_item / parts);
    bring_chunk(source, cache.head_bytes, first_chunk_of(item, source));
  }
  wait_for_inputs();
  for (int at = worker; at < header.n_items * per_item; at += workers) {
    const AttentionItem item = lists.items(header)[at / per_item];
    const int kv_head = at % per_item / parts, part = at % parts;
    const int head = kv_head * group + part * 16;
    const int64_t first_value = static_cast<int64_t>(head) * Shape::dim;
    WalkRows rows{.queries = q + item.row * q_stride + first_value,
                  .query_stride = Shape::dim,
                  .n = group - part * 16 < 16 ? group - part * 16 : 16,
                  .position = item.position,
                  .step = 0,
                  .sinks = params.sinks ? params.sinks + head : nullptr,
                  .sink_step = 1,
                  .params = params};
    const WalkSource source = source_of(item, kv_head);
    WalkResult result{.out = out + item.row * out_stride + first_value,
                      .stride = Shape::dim,
                      .sums = nullptr,
                      .input = input,
                      .row = item.row,
                      .first = first_value,
                      .row_step = 0,
                      .value_step = Shape::dim};
    if (item.slot >= 0) {
      const int64_t place = static_cast<int64_t>(item.slot) * n_heads + head;
      result.out = partial + place * Shape::dim;
      result.sums = partial_sums + 2 * place;
    }
    walk<Shape>(source, first_chunk_of(item, source), item.end_chunk, rows, result, shared.rings[warp],
                shared.own[warp], lane_id());
  }
}

constexpr int kAddThreads = 256, kAddWarps = kAddThreads / kWarp;
constexpr int kMaxDim = 256;

struct AddShared {
  float values[kAddWarps][kMaxDim];
  float largest[kAddWarps], total[kAddWarps];
};

// Launched with one block per split token and query head. Each warp merges the chunks of one group; the groups are then
// merged in order.
__global__ void __launch_bounds__(kAddThreads)
    add_splits_kernel(Lists lists, int dim, AttentionParams params, const float* partial, const float* partial_sums,
                      float* out, int64_t out_stride, ProductInput input) {
  start_after_inputs();
  auto& shared = shared_memory<AddShared>();
  const AttentionHeader header = *lists.header;
  const int head = static_cast<int>(blockIdx.y), n_heads = static_cast<int>(gridDim.y);
  const int warp = warp_id(), lane = lane_id(), d = static_cast<int>(threadIdx.x);
  for (int at = static_cast<int>(blockIdx.x); at < header.n_splits; at += static_cast<int>(gridDim.x)) {
    const AttentionSplit split = lists.splits(header)[at];
    const int first_chunk = first_seen(split.position, params) / kChunkPositions;
    const int last_chunk = split.position / kChunkPositions;
    const int per_group = split.by_group ? 1 : kGroupChunks;  // Slots per group.
    float value = 0, largest = -INFINITY, total = 0;          // Running state of the token.
    for (int first = first_chunk / kGroupChunks; first <= last_chunk / kGroupChunks; first += kAddWarps) {
      const int own = first + warp;
      int begin = own * per_group, end = begin + per_group;
      if (!split.by_group) {
        begin = begin > first_chunk ? begin : first_chunk;
        end = end < last_chunk + 1 ? end : last_chunk + 1;
      } else if (own > last_chunk / kGroupChunks) {
        end = begin;
      }
      float sums[kMaxDim / kWarp] = {}, group_largest = -INFINITY, group_total = 0;
      for (int slot = begin; slot < end; ++slot) {
        const int64_t place = static_cast<int64_t>(split.first_slot + slot) * n_heads + head;
        const Joined factors = join(group_largest, group_total, partial_sums[2 * place], partial_sums[2 * place + 1]);
        MONOLITH_UNROLL
        for (int i = 0; i < kMaxDim / kWarp; ++i)
          if (i * kWarp + lane < dim)
            sums[i] = fmaf(sums[i], factors.kept, partial[place * dim + i * kWarp + lane] * factors.added);
      }
      MONOLITH_UNROLL
      for (int i = 0; i < kMaxDim / kWarp; ++i) shared.values[warp][i * kWarp + lane] = sums[i];
      if (lane == 0) {
        shared.largest[warp] = group_largest;
        shared.total[warp] = group_total;
      }
      __syncthreads();
      for (int i = 0; i < kAddWarps && first + i <= last_chunk / kGroupChunks; ++i) {
        const Joined factors = join(largest, total, shared.largest[i], shared.total[i]);
        value = fmaf(value, factors.kept, shared.values[i][d] * factors.added);
      }
      __syncthreads();
    }
    if (params.sinks) value *= join_sink(largest, total, params.sinks[head]);
    if (d >= dim) continue;  // With 8-bit output, whole warps skip the write.
    value = finished(value, 1.0f / total);
    const int64_t k = static_cast<int64_t>(head) * dim + d;
    if (input.form == InputForm::kFloats)
      out[split.row * out_stride + k] = value;
    else
      put_value(input, split.row, k, value);
  }
}

template <typename Shape, int warps>
void launch_items(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call) {
  using Shared = ItemsShared<Shape, warps>;
  static_assert(sizeof(Shared) <= 99 << 10, "the smallest supported GPUs have 99 KB of shared memory");
  const RowList& rows = *call.rows;
  const Lists lists{rows.work, rows.pages};
  const auto multiprocessors = static_cast<unsigned>(runtime.device().multiprocessors);
  const auto blocks = multiprocessors * (runtime.device().shared_bytes / sizeof(Shared) > 1 ? 2u : 1u);
  float* const sums = scratch.sums(call.n_heads * Shape::dim);
  launch(runtime, items_kernel<Shape, warps>, dim3{blocks, 1, 1}, warps * kWarp, sizeof(Shared), lists, call.q,
         call.q_stride, call.n_heads, call.cache, call.params, call.out, call.out_stride, call.input, scratch.values(),
         sums);
  if (!rows.has_splits) return;
  const auto most_splits = static_cast<unsigned>(rows.n_rows < 8 ? rows.n_rows : 8);
  const dim3 grid{most_splits, static_cast<unsigned>(call.n_heads), 1};
  launch(runtime, add_splits_kernel, grid, kAddThreads, sizeof(AddShared), lists, Shape::dim, call.params,
         scratch.values(), sums, call.out, call.out_stride, call.input);
}

// Each warp uses as many tiles as fit in shared memory.
template <int dim, KvType type>
using ItemsShape = WalkShape<dim, 16,
                             (is_8bit(type) ? 2 : 0) + (dim < 128    ? 5
                                                        : dim == 128 ? 4
                                                                     : 3),
                             1, type>;

template <KvType type>
void items_of(Runtime& runtime, const AttentionScratch& scratch, const AttentionLaunch& call) {
  switch (call.cache.head_dim) {
    case 64: return launch_items<ItemsShape<64, type>, 4>(runtime, scratch, call);
    case 80: return launch_items<ItemsShape<80, type>, 4>(runtime, scratch, call);
    case 96: return launch_items<ItemsShape<96, type>, 4>(runtime, scratch, call);
    case 128: return launch_items<ItemsShape<128, type>, 4>(runtime, scratch, call);
    default: return launch_items<ItemsShape<256, type>, 2>(runtime, scratch, call);
  }
}

}  // namespace

}  // namespace monolith::cuda
