#include "backend/cuda/attention/rope.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/attention/kv_bytes.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128;

// Angles are computed in double: at position 100000, the error of a float product is up to 0.004 radians.
__global__ void __launch_bounds__(kThreads)
    factors_kernel(const DeviceSegment* segments, const int32_t* segment_of_row, const int32_t* pages,
                   const float* frequencies, const int32_t* axes, int half, float magnitude, float* factors) {
  start_after_inputs();
  const int row = static_cast<int>(blockIdx.x);
  const DeviceSegment segment = segments[segment_of_row[row]];
  const int position = segment.first_position + row - segment.first_row;
  const int32_t* const three =
      segment.rope_first < 0 ? nullptr : pages + segment.rope_first + 3 * (row - segment.first_row);
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    constexpr double kTurn = 6.283185307179586;
    const double angle = static_cast<double>(three ? three[axes[i]] : position) * static_cast<double>(frequencies[i]);
    const auto rest = static_cast<float>(angle - kTurn * rint(angle / kTurn));
    float* const pair = factors + 2 * (static_cast<int64_t>(row) * half + i);
    pair[0] = cosf(rest) * magnitude;
    pair[1] = sinf(rest) * magnitude;
  }
}

// Addresses of a token's key and value for one KV head.
struct Place {
  unsigned char* keys;
  unsigned char* values;
};
template <KvType type>
MONOLITH_DEVICE Place place_of(const DeviceSegment& segment, int row, const int32_t* pages, const KvView& cache,
                               int kv_head) {
  const int position = segment.first_position + row - segment.first_row;
  const int64_t page = pages[segment.first_page + position / kPageTokens];
  unsigned char* const own = cache.data + page * cache.page_bytes;
  Place place{own + kv_head * cache.head_bytes, own + cache.values + kv_head * cache.value_bytes};
  // For 8-bit pages, these are the addresses of the head's data in the page, because the codes and the scales of a
  // token are stored in different places.
  if (is_8bit(type)) return place;
  constexpr int kBytes = type == KvType::kF32 ? 4 : 2;
  place.keys += position % kPageTokens * cache.head_dim * kBytes;
  place.values += position % kPageTokens * cache.value_dim * kBytes;
  return place;
}

// Stores a token's key and value for one head in 8-bit pages. Either two warps store one each, or one warp stores both.
template <KvType type>
MONOLITH_DEVICE void put_codes(const Place& place, const DeviceSegment& segment, int row, const float* key,
                               const float* value, const KvView& cache, bool keys, bool values) {
  const int slot = (segment.first_position + row - segment.first_row) % kPageTokens;
  if (keys) store_codes<type>(code_row(place.keys, slot, cache.head_dim), key, cache.head_dim);
  if (values) store_codes<type>(code_row(place.values, slot, cache.value_dim), value, cache.value_dim);
}

template <KvType type>
MONOLITH_DEVICE void put(unsigned char* row, int i, float value) {
  if constexpr (type == KvType::kF32)
    reinterpret_cast<float*>(row)[i] = value;
  else
    reinterpret_cast<uint16_t*>(row)[i] = float_to_half(value);
}
// put4() stores four values (i a multiple of four); put2() stores two (i even).
template <KvType type>
MONOLITH_DEVICE void put4(unsigned char* row, int i, const Floats4& x) {
  if constexpr (type == KvType::kF32)
    reinterpret_cast<Floats4*>(row)[i / 4] = x;
  else
    reinterpret_cast<Words2*>(row)[i / 4] = {pack_halves(x.x, x.y), pack_halves(x.z, x.w)};
}
template <KvType type>
MONOLITH_DEVICE void put2(unsigned char* row, int i, const FloatPair& x) {
  if constexpr (type == KvType::kF32)
    reinterpret_cast<FloatPair*>(row)[i / 2] = x;
  else
    reinterpret_cast<uint32_t*>(row)[i / 2] = pack_halves(x.x, x.y);
}

// Each returns one value of the rotated pair (a, b): the first one and the second one, respectively.
MONOLITH_DEVICE float turned_first(float a, float b, float cosine, float sine) { return fmaf(a, cosine, -b * sine); }
MONOLITH_DEVICE float turned_second(float a, float b, float cosine, float sine) { return fmaf(b, cosine, a * sine); }

// Launched with one block per token and head: first the query heads, then the KV heads, which are also stored in the
// cache.
template <KvType type>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(RopeStyle style, int n_dims, const float* factors, const DeviceSegment* segments,
                const int32_t* segment_of_row, const int32_t* pages, float* q, int64_t q_stride, int n_heads, float* k,
                int64_t k_stride, const float* v, int64_t v_stride, KvView cache, HeadNorms) {
  start_after_inputs();
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
    x[first] = turned_first(a, b, cosine, sine);
    x[second] = turned_second(a, b, cosine, sine);
  }
  if (is_query) return;
  __syncthreads();
  const DeviceSegment segment = segments[segment_of_row[row]];
  const Place place = place_of<type>(segment, row, pages, cache, kv_head);
  const float* const value = v + row * v_stride + static_cast<int64_t>(kv_head) * cache.value_dim;
  if constexpr (is_8bit(type)) {
    put_codes<type>(place, segment, row, x, value, cache, warp_id() == 0, warp_id() == 1);
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < head_dim; i += kThreads) put<type>(place.keys, i, x[i]);
    for (int i = static_cast<int>(threadIdx.x); i < cache.value_dim; i += kThreads)
      put<type>(place.values, i, value[i]);
  }
}

// Applies the norm of a head, if there is one, to values starting at dimension i.
struct HeadNorm {
  const float* weight;  // Null if there is no norm.
  float factor;
  MONOLITH_DEVICE HeadNorm(const float* weight_, float eps, const float* x, int head_dim) : weight(weight_), factor(1) {
    if (!weight) return;
    float sum = 0;  // Sums in the same order as rms_norm_heads().
    for (int i = lane_id(); i < head_dim; i += kWarp) sum = fmaf(x[i], x[i], sum);
    factor = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(head_dim) + eps);
  }
  MONOLITH_DEVICE FloatPair of(const FloatPair& x, int i) const {
    if (!weight) return x;
    const FloatPair w = *reinterpret_cast<const FloatPair*>(weight + i);
    return {x.x * factor * w.x, x.y * factor * w.y};
  }
  MONOLITH_DEVICE Floats4 of(const Floats4& x, int i) const {
    if (!weight) return x;
    const Floats4 w = *reinterpret_cast<const Floats4*>(weight + i);
    return {x.x * factor * w.x, x.y * factor * w.y, x.z * factor * w.z, x.w * factor * w.w};
  }
};

// RoPE with one warp per head. Each lane rotates two pairs at a time. All sizes must be multiples of four.
constexpr int kHeadWarps = 4;
template <KvType type>
__global__ void __launch_bounds__(kHeadWarps* kWarp)
    rope_quads_kernel(RopeStyle style, int n_dims, const float* factors, const DeviceSegment* segments,
                      const int32_t* segment_of_row, const int32_t* pages, float* q, int64_t q_stride, int n_heads,
                      float* k, int64_t k_stride, const float* v, int64_t v_stride, KvView cache, HeadNorms norms) {
  start_after_inputs();
  const int row = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y) * kHeadWarps + warp_id();
  if (head >= n_heads + cache.n_kv_heads) return;  // Only whole warps return here.
  const int head_dim = cache.head_dim, half = n_dims / 2, lane = lane_id();
  const bool stores = head >= n_heads;
  const int kv_head = head - n_heads;
  float* const x = stores ? k + row * k_stride + static_cast<int64_t>(kv_head) * head_dim
                          : q + row * q_stride + static_cast<int64_t>(head) * head_dim;
  const HeadNorm norm(stores ? norms.k : norms.q, norms.eps, x, head_dim);
  Place place{};
  if (stores) place = place_of<type>(segments[segment_of_row[row]], row, pages, cache, kv_head);
  const auto* const own = reinterpret_cast<const Floats4*>(factors + 2 * static_cast<int64_t>(row) * half);
  for (int i = 2 * lane; i < half; i += 2 * kWarp) {
    const Floats4 turn = own[i / 2];
    if (style == RopeStyle::kAdjacentPairs) {
      Floats4& at = *reinterpret_cast<Floats4*>(x + 2 * i);
      const Floats4 before = norm.of(at, 2 * i);
      const Floats4 now{
          turned_first(before.x, before.y, turn.x, turn.y), turned_second(before.x, before.y, turn.x, turn.y),
          turned_first(before.z, before.w, turn.z, turn.w), turned_second(before.z, before.w, turn.z, turn.w)};
      at = now;
      if (stores && !is_8bit(type)) put4<type>(place.keys, 2 * i, now);
    } else {
      FloatPair& first = *reinterpret_cast<FloatPair*>(x + i);
      FloatPair& second = *reinterpret_cast<FloatPair*>(x + half + i);
      const FloatPair a = norm.of(first, i), b = norm.of(second, half + i);
      const FloatPair now_first{turned_first(a.x, b.x, turn.x, turn.y), turned_first(a.y, b.y, turn.z, turn.w)};
      const FloatPair now_second{turned_second(a.x, b.x, turn.x, turn.y), turned_second(a.y, b.y, turn.z, turn.w)};
      first = now_first;
      second = now_second;
      if (stores && !is_8bit(type)) {
        put2<type>(place.keys, i, now_first);
        put2<type>(place.keys, half + i, now_second);
      }
    }
  }
  if (norm.weight) {
    for (int i = n_dims + 4 * lane; i < head_dim; i += 4 * kWarp) {
      Floats4& at = *reinterpret_cast<Floats4*>(x + i);
      at = norm.of(at, i);
    }
  }
  if (!stores) return;
  const float* const value = v + row * v_stride + static_cast<int64_t>(kv_head) * cache.value_dim;
  if constexpr (is_8bit(type)) {
    __syncwarp();  // Makes the values rotated by other lanes visible.
    put_codes<type>(place, segments[segment_of_row[row]], row, x, value, cache, true, true);
  } else {
    for (int i = n_dims + 4 * lane; i < head_dim; i += 4 * kWarp)
      put4<type>(place.keys, i, *reinterpret_cast<const Floats4*>(x + i));
    for (int i = 4 * lane; i < cache.value_dim; i += 4 * kWarp)
      put4<type>(place.values, i, *reinterpret_cast<const Floats4*>(value + i));
  }
}

template <KvType type>
auto rope_kernel_for(bool quads) {
  return quads ? rope_quads_kernel<type> : rope_kernel<type>;
}

}  // namespace

size_t RopeTables::bytes_for(int max_rows, int max_head_dim) {
  return static_cast<size_t>(max_head_dim) * sizeof(float) * (kSets * (static_cast<size_t>(max_rows) + 1) + 1);
}

Status RopeTables::reserve(int max_rows, int max_head_dim) {
  // Invalidates the sets, because a model may have been unloaded and another model's frequencies may now be at the same
  // address.
  for (Set& set : sets_) set.host = nullptr;
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

RopeTables::Set& RopeTables::find(const RopeParams& rope) {
  Set* set = std::ranges::find_if(sets_, [&](const Set& known) {
    return known.host == rope.inverse_frequency && known.n_dims == rope.n_dims && known.magnitude == rope.magnitude &&
           known.axes == rope.axes;
  });
  if (set == sets_.end()) {
    set = &sets_[static_cast<size_t>(next_)];
    next_ = (next_ + 1) % kSets;
    runtime_.synchronize();
    const int half = rope.n_dims / 2;
    std::memcpy(staging_, rope.inverse_frequency, static_cast<size_t>(half) * sizeof(float));
    for (int i = 0; i < half; ++i) {
      const int32_t axis = rope.axes ? rope.axes[i] : 0;
      std::memcpy(staging_ + half + i, &axis, sizeof axis);
    }
    runtime_.upload(set->frequencies, staging_, static_cast<size_t>(rope.n_dims) * sizeof(float));
    set->host = rope.inverse_frequency;
    set->axes = rope.axes;
    set->n_dims = rope.n_dims;
    set->magnitude = rope.magnitude;
    set->ready_for = nullptr;
  }
  return *set;
}

const float* RopeTables::frequencies(const RopeParams& rope) {
  return rope.n_dims == 0 ? nullptr : find(rope).frequencies;
}

const float* RopeTables::prepare(const RopeParams& rope, const RowList& rows) {
  if (rope.n_dims == 0 || rows.n_rows == 0) return nullptr;
  Set* const set = &find(rope);
  if (set->ready_for != rows.segments) {
    launch(runtime_, factors_kernel, dim3{static_cast<unsigned>(rows.n_rows), 1, 1}, kThreads, 0, rows.segments,
           rows.segment_of_row, rows.pages, set->frequencies,
           reinterpret_cast<const int32_t*>(set->frequencies + rope.n_dims / 2), rope.n_dims / 2, rope.magnitude,
           set->factors);
    set->ready_for = rows.segments;
  }
  return set->factors;
}

RopeForm rope_form(int head_dim, int n_dims, int64_t q_stride, int64_t k_stride, int64_t v_stride) {
  const bool fours = head_dim % 4 == 0 && n_dims % 4 == 0 && (q_stride | k_stride | v_stride) % 4 == 0;
  return fours ? RopeForm::kQuads : RopeForm::kPlain;
}

void rope_and_store(Runtime& runtime, const RopeParams& rope, const float* factors, const RopeLaunch& call) {
  const RowList& rows = *call.rows;
  if (rows.n_rows == 0) return;
  const auto n_rows = static_cast<unsigned>(rows.n_rows);
  const auto heads = static_cast<unsigned>(call.n_heads + call.cache.n_kv_heads);
  const int n_dims = factors ? rope.n_dims : 0;
  const bool quads =
      rope_form(call.cache.head_dim, n_dims, call.q_stride, call.k_stride, call.v_stride) == RopeForm::kQuads &&
      call.cache.value_dim % 4 == 0;
  const auto kernel = call.type == KvType::kF32    ? rope_kernel_for<KvType::kF32>(quads)
                      : call.type == KvType::kF16  ? rope_kernel_for<KvType::kF16>(quads)
                      : call.type == KvType::kQ8_0 ? rope_kernel_for<KvType::kQ8_0>(quads)
                                                   : rope_kernel_for<KvType::kFp8>(quads);
  const dim3 grid{n_rows, quads ? (heads + kHeadWarps - 1) / kHeadWarps : heads, 1};
  launch(runtime, kernel, grid, quads ? kHeadWarps * kWarp : kThreads, 0, rope.style, n_dims, factors, rows.segments,
         rows.segment_of_row, rows.pages, call.q, call.q_stride, call.n_heads, call.k, call.k_stride, call.v,
         call.v_stride, call.cache, call.norms);
}

}  // namespace monolith::cuda
