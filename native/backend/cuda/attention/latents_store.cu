// Applies RoPE to MLA latents and to the queries that attend to them, and writes the latent rows into KV pages.
#include "backend/cuda/attention/kv_bytes.h"
#include "backend/cuda/attention/latents.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;

// Returns rotated dimension i of the dimensions that carry RoPE. `from` holds the unrotated dimensions.
MONOLITH_DEVICE float turned(const float* from, int i, RopeStyle style, int n_dims, const float* factors) {
  if (i >= n_dims) return from[i];
  const bool pairs = style == RopeStyle::kAdjacentPairs;
  const int half = n_dims / 2, angle = pairs ? i / 2 : i % half;
  const bool second = pairs ? i % 2 == 1 : i >= half;
  const float other = from[pairs ? i ^ 1 : second ? i - half : i + half];
  const float cosine = factors[2 * angle], sine = factors[2 * angle + 1];
  return second ? fmaf(from[i], cosine, other * sine) : fmaf(from[i], cosine, -other * sine);
}

// The warps of a row's first blocks each rotate one query head. The last block rotates and stores the latent row
// itself.
template <KvType type>
__global__ void __launch_bounds__(kThreads)
    store_kernel(RopeStyle style, int n_dims, const float* factors, const DeviceSegment* segments,
                 const int32_t* segment_of_row, const int32_t* pages, LatentQueries queries, float* latents,
                 int64_t stride, KvView cache) {
  start_after_inputs();
  const int64_t row = blockIdx.x;
  const int value_dim = cache.value_dim, shared_dim = cache.head_dim - value_dim;
  const float* const own_factors = factors ? factors + row * n_dims : nullptr;
  if (blockIdx.y + 1 < gridDim.y) {
    const int head = static_cast<int>(blockIdx.y) * kWarps + warp_id();
    if (head >= queries.n_heads) return;
    const float* const from = queries.from + row * queries.from_stride + static_cast<int64_t>(head) * queries.from_dim +
                              (queries.from_dim - shared_dim);
    float* const to = queries.to + row * queries.to_stride + static_cast<int64_t>(head) * cache.head_dim + value_dim;
    for (int i = lane_id(); i < shared_dim; i += kWarp) to[i] = turned(from, i, style, n_dims, own_factors);
    return;
  }
  float* const x = latents + row * stride;
  const int pairs = n_dims / 2;
  // Rotates in place, so both values of a pair are computed before either is written.
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += kThreads) {
    const int first = style == RopeStyle::kAdjacentPairs ? 2 * i : i;
    const int second = style == RopeStyle::kAdjacentPairs ? 2 * i + 1 : i + pairs;
    float* const from = x + value_dim;
    const float a = turned(from, first, style, n_dims, own_factors),
                b = turned(from, second, style, n_dims, own_factors);
    from[first] = a;
    from[second] = b;
  }
  __syncthreads();
  const DeviceSegment segment = segments[segment_of_row[row]];
  const int position = segment.first_position + static_cast<int>(row) - segment.first_row,
            slot = position % kPageTokens;
  const int64_t number = pages[segment.first_page + position / kPageTokens];
  unsigned char* const page = cache.data + number * cache.page_bytes;
  if constexpr (is_8bit(type)) {
    if (warp_id() == 0) store_codes<type>(code_row(page, slot, cache.head_dim), x, cache.head_dim);
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < cache.head_dim; i += kThreads) {
      const int at = slot * cache.head_dim + i;
      if constexpr (type == KvType::kF32)
        reinterpret_cast<float*>(page)[at] = x[i];
      else
        reinterpret_cast<uint16_t*>(page)[at] = float_to_half(x[i]);
    }
  }
}

}  // namespace

void store_latents(Runtime& runtime, const LatentStore& store) {
  const RowList& rows = *store.rows;
  if (rows.n_rows == 0) return;
  const auto kernel = store.type == KvType::kF32    ? store_kernel<KvType::kF32>
                      : store.type == KvType::kF16  ? store_kernel<KvType::kF16>
                      : store.type == KvType::kQ8_0 ? store_kernel<KvType::kQ8_0>
                                                    : store_kernel<KvType::kFp8>;
  const dim3 grid{static_cast<unsigned>(rows.n_rows),
                  static_cast<unsigned>((store.queries.n_heads + kWarps - 1) / kWarps + 1), 1};
  launch(runtime, kernel, grid, kThreads, 0, store.style, store.factors ? store.n_dims : 0, store.factors,
         rows.segments, rows.segment_of_row, rows.pages, store.queries, store.latents, store.stride, store.cache);
}

}  // namespace monolith::cuda
