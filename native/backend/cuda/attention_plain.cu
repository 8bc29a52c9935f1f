#include "backend/cuda/attention.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

MONOLITH_DEVICE float get(const float* at) { return *at; }
MONOLITH_DEVICE float get(const uint16_t* at) { return half_to_float(*at); }

template <typename Number>
__global__ void __launch_bounds__(kWarp)
    plain_kernel(const DeviceSegment* segments, const int32_t* segment_of_row, const int32_t* pages, const float* q,
                 int64_t q_stride, int n_heads, KvView cache, AttentionParams params, float* out, int64_t out_stride) {
  start_after_inputs();
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (n_heads / cache.n_kv_heads), head_dim = cache.head_dim;
  const DeviceSegment segment = segments[segment_of_row[row]];
  const int last = segment.first_position + row - segment.first_row;
  const int first = params.window > 0 && last >= params.window ? last - params.window + 1 : 0;
  const float* const query = q + row * q_stride + static_cast<int64_t>(head) * head_dim;
  float* const result = out + row * out_stride + static_cast<int64_t>(head) * head_dim;
  const int lane = lane_id();
  for (int d = lane; d < head_dim; d += kWarp) result[d] = 0;
  float largest = -INFINITY, total = 0;
  for (int position = first; position <= last; ++position) {
    const int64_t page = pages[segment.first_page + position / kPageTokens];
    const int64_t slot = (static_cast<int64_t>(kv_head) * kPageTokens + position % kPageTokens) * head_dim;
    const auto* key = reinterpret_cast<const Number*>(cache.data + page * cache.page_bytes) + slot;
    const auto* value = reinterpret_cast<const Number*>(cache.data + page * cache.page_bytes + cache.values) + slot;
    float score = 0;
    for (int d = lane; d < head_dim; d += kWarp) score = fmaf(query[d], get(key + d), score);
    score = warp_sum(score) * params.scale;
    if (params.soft_cap > 0) score = params.soft_cap * tanhf(score / params.soft_cap);
    const float now = largest > score ? largest : score;
    const float kept = expf(largest - now), weight = expf(score - now);
    for (int d = lane; d < head_dim; d += kWarp) result[d] = fmaf(result[d], kept, weight * get(value + d));
    total = fmaf(total, kept, weight);
    largest = now;
  }
  if (params.sinks) {   // one more score, of no value
    const float sink = params.sinks[head], now = largest > sink ? largest : sink;
    total = fmaf(total, expf(largest - now), expf(sink - now));
    const float kept = expf(largest - now);
    for (int d = lane; d < head_dim; d += kWarp) result[d] *= kept;
  }
  for (int d = lane; d < head_dim; d += kWarp) result[d] /= total;
}

}  // namespace

void attention_plain(Runtime& runtime, const AttentionCall& call, KvType type) {
  const RowList& rows = *call.rows;
  const dim3 grid{static_cast<unsigned>(rows.n_rows), static_cast<unsigned>(call.n_heads), 1};
  launch(runtime, type == KvType::kF32 ? plain_kernel<float> : plain_kernel<uint16_t>, grid, kWarp, 0, rows.segments,
         rows.segment_of_row, rows.pages, call.q, call.q_stride, call.n_heads, call.cache, call.params, call.out,
         call.out_stride);
}

}  // namespace monolith::cuda
