#include "backend/cuda/attention/attention.h"
#include "backend/cuda/device/launch.h"
#include "backend/cuda/attention/kv_bytes.h"
#include "backend/cuda/attention/seen.h"

namespace monolith::cuda {
namespace {

template <KvType type>
__global__ void __launch_bounds__(kWarp)
    plain_kernel(const DeviceSegment* segments, const int32_t* segment_of_row, const int32_t* pages, const float* q,
                 int64_t q_stride, int n_heads, KvView cache, AttentionParams params, float* out, int64_t out_stride) {
  start_after_inputs();
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (n_heads / cache.n_kv_heads), head_dim = cache.head_dim, value_dim = cache.value_dim;
  const DeviceSegment segment = segments[segment_of_row[row]];
  const int own_position = segment.first_position + row - segment.first_row, last = segment.last_seen(own_position);
  const int first = first_seen(own_position, params);
  const float scale = params.scale * temperature(own_position, params);
  const float* const query = q + row * q_stride + static_cast<int64_t>(head) * head_dim;
  float* const result = out + row * out_stride + static_cast<int64_t>(head) * value_dim;
  const int lane = lane_id();
  for (int d = lane; d < value_dim; d += kWarp) result[d] = 0;
  float largest = -INFINITY, total = 0;
  for (int position = first; position <= last; ++position) {
    const int64_t page = pages[segment.first_page + position / kPageTokens];
    const int slot = position % kPageTokens;
    const unsigned char* const own = cache.data + page * cache.page_bytes;
    const unsigned char* const keys = own + kv_head * cache.head_bytes;
    const unsigned char* const values = own + cache.values + kv_head * cache.value_bytes;
    float score = 0;
    for (int d = lane; d < head_dim; d += kWarp)
      score = fmaf(query[d], kept_value<type>(keys, slot, d, head_dim), score);
    score = warp_sum(score) * scale;
    if (params.soft_cap > 0) score = params.soft_cap * tanhf(score / params.soft_cap);
    const float now = largest > score ? largest : score;
    const float kept = expf(largest - now), weight = expf(score - now);
    for (int d = lane; d < value_dim; d += kWarp)
      result[d] = fmaf(result[d], kept, weight * kept_value<type>(values, slot, d, value_dim));
    total = fmaf(total, kept, weight);
    largest = now;
  }
  if (params.sinks) {  // An attention sink is one more score without a value.
    const float sink = params.sinks[head], now = largest > sink ? largest : sink;
    total = fmaf(total, expf(largest - now), expf(sink - now));
    const float kept = expf(largest - now);
    for (int d = lane; d < value_dim; d += kWarp) result[d] *= kept;
  }
  for (int d = lane; d < value_dim; d += kWarp) result[d] /= total;
}

}  // namespace

void attention_plain(Runtime& runtime, const AttentionLaunch& call, KvType type) {
  const RowList& rows = *call.rows;
  const dim3 grid{static_cast<unsigned>(rows.n_rows), static_cast<unsigned>(call.n_heads), 1};
  const auto kernel = type == KvType::kF32   ? plain_kernel<KvType::kF32>
                      : type == KvType::kF16 ? plain_kernel<KvType::kF16>
                      : type == KvType::kFp8 ? plain_kernel<KvType::kFp8>
                                             : plain_kernel<KvType::kQ8_0>;
  launch(runtime, kernel, grid, kWarp, 0, rows.segments, rows.segment_of_row, rows.pages, call.q, call.q_stride,
         call.n_heads, call.cache, call.params, call.out, call.out_stride);
}

}  // namespace monolith::cuda
