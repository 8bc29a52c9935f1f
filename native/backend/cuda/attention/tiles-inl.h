// Attention for many tokens of one sequence, as in prefill. A block computes a tile of tokens for the query heads of
// one KV head. Each warp computes 16 tokens of one query head, and all warps share the same keys and values. Included
// by the files that each instantiate the kernels for one KV cache type.
#pragma once

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/walk.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

template <typename Shape>
struct TilesShared {
  WalkRing<Shape> ring;
  WalkOwn<Shape> own[Shape::sharers];
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::sharers* kWarp)
    tiles_kernel(const AttentionHeader* work, const int32_t* base, const DeviceSegment* segments, TileShare share,
                 const float* q, int64_t q_stride, int n_heads, KvView cache, AttentionParams params, float* out,
                 int64_t out_stride, ProductInput input) {
  start_after_inputs();
  auto& shared = shared_memory<TilesShared<Shape>>();
  const int warp = warp_id();
  const int group = n_heads / cache.n_kv_heads;
  // KV heads and groups of query heads are the fastest-varying indices, so that the longest tiles run first.
  int at = static_cast<int>(blockIdx.x);
  const int heads_at = at % share.blocks_per_group;
  at /= share.blocks_per_group;
  const int kv_head = at % cache.n_kv_heads;
  at /= cache.n_kv_heads;
  const int part = share.blocks_per_tile - 1 - at % share.blocks_per_tile;
  const AttentionTile tile = reinterpret_cast<const AttentionTile*>(base + work->tiles)[at / share.blocks_per_tile];
  const DeviceSegment segment = segments[tile.segment];
  const int block_token = tile.first_token + part * share.tokens;
  if (block_token >= segment.n_tokens || part * share.tokens >= kTileTokens) return;
  int end_token = block_token + share.tokens;
  end_token = end_token < segment.n_tokens ? end_token : segment.n_tokens;
  end_token = end_token < tile.first_token + kTileTokens ? end_token : tile.first_token + kTileTokens;

  // Index of the query head among the query heads of its KV head.
  const int head_at = heads_at * share.heads + warp / share.warps_per_head;
  const int token = block_token + warp % share.warps_per_head * 16;
  int n = end_token - token < 16 ? end_token - token : 16;
  if (n < 0 || warp / share.warps_per_head >= share.heads || head_at >= group) n = 0;
  const int64_t row = segment.first_row + token;
  const int64_t first_value = static_cast<int64_t>(kv_head * group + head_at) * Shape::dim;
  const WalkRows rows{.queries = q + row * q_stride + first_value,
                      .query_stride = q_stride,
                      .n = n,
                      .position = segment.first_position + token,
                      .step = 1,
                      .sinks = params.sinks ? params.sinks + kv_head * group + head_at : nullptr,
                      .sink_step = 0,
                      .seen_end = segment.seen_end,
                      .params = params};
  const WalkSource source{.keys = cache.data + kv_head * cache.head_bytes,
                          .values = cache.values,
                          .page_bytes = cache.page_bytes,
                          .pages = base + segment.first_page,
                          .first = first_seen(segment.first_position + block_token, params),
                          .last = segment.last_seen(segment.first_position + end_token - 1)};
  walk<Shape>(source, source.first / kChunkPositions, source.last / kChunkPositions + 1, rows,
              {.out = out + row * out_stride + first_value,
               .stride = out_stride,
               .sums = nullptr,
               .input = input,
               .row = row,
               .first = first_value,
               .row_step = 1,
               .value_step = 0},
              shared.ring, shared.own[warp], static_cast<int>(threadIdx.x));
}

template <typename Shape>
void launch_tiles(Runtime& runtime, const AttentionLaunch& call) {
  using Shared = TilesShared<Shape>;
  static_assert(sizeof(Shared) <= 99 << 10, "the smallest supported GPUs have 99 KB of shared memory");
  const RowList& rows = *call.rows;
  const TileShare share = tile_share(call.n_heads / call.cache.n_kv_heads, Shape::sharers);
  const int64_t blocks = int64_t{rows.n_tiles} * share.blocks_per_tile * call.cache.n_kv_heads * share.blocks_per_group;
  const dim3 grid{static_cast<unsigned>(blocks), 1, 1};
  launch(runtime, tiles_kernel<Shape>, grid, Shape::sharers * kWarp, sizeof(Shared), rows.work, rows.pages,
         rows.segments, share, call.q, call.q_stride, call.n_heads, call.cache, call.params, call.out, call.out_stride,
         call.input);
}

template <KvType type>
void tiles_of(Runtime& runtime, const AttentionLaunch& call) {
  switch (call.cache.head_dim) {
    case 64: return launch_tiles<WalkShape<64, 64, 3, 8, type>>(runtime, call);
    case 80: return launch_tiles<WalkShape<80, 64, 3, 8, type>>(runtime, call);
    case 96: return launch_tiles<WalkShape<96, 64, 3, 8, type>>(runtime, call);
    case 128: return launch_tiles<WalkShape<128, 64, 3, 8, type>>(runtime, call);
    default: return launch_tiles<WalkShape<256, 32, 2, 2, type>>(runtime, call);
  }
}

}  // namespace

}  // namespace monolith::cuda
