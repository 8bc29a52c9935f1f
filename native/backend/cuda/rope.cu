#include "backend/cuda/rope.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128;

// Angles in double: at position 100000 a float product is wrong by up to 0.004 radians.
__global__ void __launch_bounds__(kThreads)
    factors_kernel(const DeviceSegment* segments, const int32_t* segment_of_row, const float* frequencies, int half,
                   float magnitude, float* factors) {
  const int row = static_cast<int>(blockIdx.x);
  const DeviceSegment segment = segments[segment_of_row[row]];
  const int position = segment.first_position + row - segment.first_row;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    constexpr double kTurn = 6.283185307179586;
    const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
    const auto rest = static_cast<float>(angle - kTurn * rint(angle / kTurn));
    float* const pair = factors + 2 * (static_cast<int64_t>(row) * half + i);
    pair[0] = cosf(rest) * magnitude;
    pair[1] = sinf(rest) * magnitude;
  }
}

MONOLITH_DEVICE void put(float* at, float value) { *at = value; }
MONOLITH_DEVICE void put(uint16_t* at, float value) { *at = float_to_half(value); }

// One block per row and head: query heads first, then the KV heads, which also store.
template <typename Number>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(RopeStyle style, int n_dims, const float* factors, const DeviceSegment* segments,
                const int32_t* segment_of_row, const int32_t* pages, float* q, int64_t q_stride, int n_heads, float* k,
                int64_t k_stride, const float* v, int64_t v_stride, KvView cache) {
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int head_dim = cache.head_dim, half = n_dims / 2;
  const bool is_query = head < n_heads;
  const int kv_head = head - n_heads;
  float* const x = is_query ? q + row * q_stride + static_cast<int64_t>(head) * head_dim
                            : k + row * k_stride + static_cast<int64_t>(kv_head) * head_dim;
  const float* const own = factors + 2 * static_cast<int64_t>(row) * half;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    const int first = style == RopeStyle::kAdjacentPairs ? 2 * i : i;
    const int second = style == RopeStyle::kAdjacentPairs ? 2 * i + 1 : i + half;
    const float cosine = own[2 * i], sine = own[2 * i + 1];
    const float a = x[first], b = x[second];
    x[first] = fmaf(a, cosine, -b * sine);
    x[second] = fmaf(b, cosine, a * sine);
  }
  if (is_query) return;
  __syncthreads();
  const DeviceSegment segment = segments[segment_of_row[row]];
  const int position = segment.first_position + row - segment.first_row;
  const int64_t page = pages[segment.first_page + position / kPageTokens];
  const int64_t slot = (static_cast<int64_t>(kv_head) * kPageTokens + position % kPageTokens) * head_dim;
  auto* const keys = reinterpret_cast<Number*>(cache.data + page * cache.page_bytes) + slot;
  auto* const values = reinterpret_cast<Number*>(cache.data + page * cache.page_bytes + cache.values) + slot;
  const float* const value = v + row * v_stride + static_cast<int64_t>(kv_head) * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < head_dim; i += kThreads) {
    put(keys + i, x[i]);
    put(values + i, value[i]);
  }
}

}  // namespace

size_t RopeTables::bytes_for(int max_rows, int max_head_dim) {
  return static_cast<size_t>(max_head_dim) * sizeof(float) * (kSets * (static_cast<size_t>(max_rows) + 1) + 1);
}

Status RopeTables::reserve(int max_rows, int max_head_dim) {
  if (max_rows <= max_rows_ && max_head_dim <= max_head_dim_) return {};
  max_rows_ = std::max(max_rows, max_rows_);
  max_head_dim_ = std::max(max_head_dim, max_head_dim_);
  const auto dim = static_cast<size_t>(max_head_dim_);
  for (Set& set : sets_) {
    runtime_.free(set.frequencies);
    runtime_.free(set.factors);
    set = {};
    auto frequencies = runtime_.allocate(dim * sizeof(float));
    if (!frequencies) return frequencies.error();
    set.frequencies = static_cast<float*>(*frequencies);
    auto factors = runtime_.allocate(dim * static_cast<size_t>(max_rows_) * sizeof(float));
    if (!factors) return factors.error();
    set.factors = static_cast<float*>(*factors);
  }
  runtime_.free_pinned(staging_);
  auto staging = runtime_.allocate_pinned(dim * sizeof(float));
  if (!staging) return staging.error();
  staging_ = static_cast<float*>(*staging);
  return {};
}

void RopeTables::begin_step() {
  for (Set& set : sets_) set.ready_for = nullptr;
}

const float* RopeTables::prepare(const RopeParams& rope, const RowList& rows) {
  if (rope.n_dims == 0) return nullptr;
  Set* set = std::ranges::find_if(sets_, [&](const Set& known) {
    return known.host == rope.inverse_frequency && known.n_dims == rope.n_dims && known.magnitude == rope.magnitude;
  });
  if (set == sets_.end()) {
    set = &sets_[static_cast<size_t>(next_)];
    next_ = (next_ + 1) % kSets;
    runtime_.synchronize();
    std::memcpy(staging_, rope.inverse_frequency, static_cast<size_t>(rope.n_dims / 2) * sizeof(float));
    runtime_.upload(set->frequencies, staging_, static_cast<size_t>(rope.n_dims / 2) * sizeof(float));
    set->host = rope.inverse_frequency;
    set->n_dims = rope.n_dims;
    set->magnitude = rope.magnitude;
    set->ready_for = nullptr;
  }
  if (set->ready_for != rows.segments) {
    launch(runtime_, factors_kernel, dim3{static_cast<unsigned>(rows.n_rows), 1, 1}, kThreads, 0, rows.segments,
           rows.segment_of_row, set->frequencies, rope.n_dims / 2, rope.magnitude, set->factors);
    set->ready_for = rows.segments;
  }
  return set->factors;
}

void rope_and_store(Runtime& runtime, const RopeParams& rope, const float* factors, const RowList& rows, float* q,
                    int64_t q_stride, int n_heads, float* k, int64_t k_stride, const float* v, int64_t v_stride,
                    const KvView& cache, KvType type) {
  if (rows.n_rows == 0) return;
  const dim3 grid{static_cast<unsigned>(rows.n_rows), static_cast<unsigned>(n_heads + cache.n_kv_heads), 1};
  launch(runtime, type == KvType::kF32 ? rope_kernel<float> : rope_kernel<uint16_t>, grid, kThreads, 0, rope.style,
         factors ? rope.n_dims : 0, factors, rows.segments, rows.segment_of_row, rows.pages, q, q_stride, n_heads, k,
         k_stride, v, v_stride, cache);
}

}  // namespace monolith::cuda
