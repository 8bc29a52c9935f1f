// Float32 attention of a token to the rows of its sliding window and to compressed blocks. One warp computes one token
// and head, and each lane holds every 32nd dimension. Softmax weights are relative to the largest score so far.
#include "backend/cuda/attention/blocks.h"
#include "backend/cuda/attention/kv_bytes.h"
#include "backend/cuda/attention/seen.h"
#include "backend/cuda/attention/walk_feed.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;

struct BlockLaunch {
  const DeviceSegment* segments;
  const int32_t* segment_of_row;
  const int32_t* pages;
  const float* q;
  int64_t q_stride;
  int32_t n_heads;
  KvView cache, blocks;
  AttentionParams params;
  float* out;
  int64_t out_stride;
};

// Location of a cached row.
struct Kept {
  const unsigned char* page;
  int slot;
};

// The head dimension is at most kPieces * 32.
template <KvType type, int kPieces>
__global__ void __launch_bounds__(kThreads) blocks_kernel(const __grid_constant__ BlockLaunch launch) {
  start_after_inputs();
  const AttentionParams& params = launch.params;
  const int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp_id(), lane = lane_id();
  if (head >= launch.n_heads) return;  // Only whole warps return here.
  const DeviceSegment segment = launch.segments[launch.segment_of_row[row]];
  const int position = segment.first_position + static_cast<int>(row) - segment.first_row;
  const int first = first_seen(position, params), n_near = position + 1 - first;
  const int n_blocks = params.block > 0 ? (position + 1) / params.block : 0;
  const bool chooses = params.most_chosen > 0 && n_blocks > params.most_chosen;
  const auto* const chosen = reinterpret_cast<const int32_t*>(params.chosen) + row * params.most_chosen;
  const int n = n_near + (chooses ? params.most_chosen : n_blocks);
  const int32_t* const pages = launch.pages + segment.first_page;
  const auto kept_at = [&](int number) -> Kept {
    if (number < n_near) {
      const int at = first + number;
      return {launch.cache.data + pages[at / kPageTokens] * launch.cache.page_bytes, at % kPageTokens};
    }
    const int index = chooses ? chosen[number - n_near] : number - n_near;
    // Last position of the block. The page of that position stores the block's row.
    const int last = (index + 1) * params.block - 1;
    return {launch.blocks.data + pages[last / kPageTokens] * launch.blocks.page_bytes, index % launch.blocks.page_rows};
  };
  const int dim = launch.cache.head_dim, value_dim = launch.cache.value_dim;
  const float* const q = launch.q + row * launch.q_stride + static_cast<int64_t>(head) * dim;
  const float factor = params.scale * kLog2E;
  float query[kPieces], sums[kPieces];
  MONOLITH_UNROLL
  for (int j = 0; j < kPieces; ++j) {
    const int d = lane + j * kWarp;
    query[j] = d < dim ? q[d] * factor : 0.0f;
    sums[j] = 0;
  }
  float largest = -INFINITY, total = 0;
  for (int number = 0; number < n; ++number) {
    const Kept kept = kept_at(number);
    float value[kPieces], score = 0;
    MONOLITH_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      const int d = lane + j * kWarp;
      value[j] = d < dim ? kept_value<type>(kept.page, kept.slot, d, dim) : 0.0f;
      score = fmaf(query[j], value[j], score);
    }
    const Joined own = join(largest, total, warp_sum(score), 1.0f);
    MONOLITH_UNROLL
    for (int j = 0; j < kPieces; ++j) sums[j] = fmaf(sums[j], own.kept, value[j] * own.added);
  }
  const float left = params.sinks ? join_sink(largest, total, params.sinks[head]) : 1.0f, inverse = 1.0f / total;
  float* const out = launch.out + row * launch.out_stride + static_cast<int64_t>(head) * value_dim;
  MONOLITH_UNROLL
  for (int j = 0; j < kPieces; ++j) {
    const int d = lane + j * kWarp;
    if (d < value_dim) out[d] = finished(sums[j] * left, inverse);
  }
}

template <KvType type>
void launch_by_size(Runtime& runtime, const BlockLaunch& work, int n_rows) {
  static_assert(kMaxLatentDims == 32 * kWarp);
  const auto kernel = work.cache.head_dim <= 64    ? blocks_kernel<type, 2>
                      : work.cache.head_dim <= 512 ? blocks_kernel<type, 16>
                                                   : blocks_kernel<type, kMaxLatentDims / kWarp>;
  const dim3 grid{static_cast<unsigned>(n_rows), static_cast<unsigned>((work.n_heads + kWarps - 1) / kWarps), 1};
  launch(runtime, kernel, grid, kThreads, 0, work);
}

}  // namespace

void attention_blocks(Runtime& runtime, const AttentionLaunch& call, const KvView& blocks, KvType type) {
  const RowList& rows = *call.rows;
  if (rows.n_rows == 0) return;
  const BlockLaunch work{.segments = rows.segments,
                         .segment_of_row = rows.segment_of_row,
                         .pages = rows.pages,
                         .q = call.q,
                         .q_stride = call.q_stride,
                         .n_heads = call.n_heads,
                         .cache = call.cache,
                         .blocks = blocks,
                         .params = call.params,
                         .out = call.out,
                         .out_stride = call.out_stride};
  const auto launch_it = type == KvType::kF32    ? launch_by_size<KvType::kF32>
                         : type == KvType::kF16  ? launch_by_size<KvType::kF16>
                         : type == KvType::kQ8_0 ? launch_by_size<KvType::kQ8_0>
                                                 : launch_by_size<KvType::kFp8>;
  launch_it(runtime, work, rows.n_rows);
}

}  // namespace monolith::cuda
