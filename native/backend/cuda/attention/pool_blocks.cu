// Pools blocks of positions into rows (compressed attention). One thread computes the softmax-weighted sum of each
// value; one warp per row then writes the rows into KV pages.
#include "backend/cuda/attention/blocks.h"
#include "backend/cuda/attention/kv_bytes.h"
#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/mathematics.h"
#include "backend/cuda/recurrence/state_block.h"

namespace monolith::cuda {
namespace {

constexpr int kPoolThreads = 64;
// The largest score of an empty set. Weights relative to it are zero, and differences from it are finite.
constexpr float kNoScore = -1e30f;

// The running state of one value of an incomplete block.
struct Pooled {
  float top, sum, value;  // The largest score, the sum of weights relative to it, and the weighted sum.

  MONOLITH_DEVICE void clear() {
    top = kNoScore;
    sum = value = 0;
  }
  MONOLITH_DEVICE void load(const float* from, int64_t dim) {
    top = from[0];
    sum = from[dim];
    value = from[2 * dim];
  }
  MONOLITH_DEVICE void store(float* to, int64_t dim) const {
    to[0] = top;
    to[dim] = sum;
    to[2 * dim] = value;
  }
  MONOLITH_DEVICE void add(float x, float score) {
    const float largest = top < score ? score : top;
    const float kept = exponential(top - largest), added = exponential(score - largest);
    top = largest;
    sum = sum * kept + added;
    value = value * kept + added * x;
  }
};

__global__ void __launch_bounds__(kPoolThreads)
    pool_kernel(const BlockPool pool, int64_t width, const DeviceSegment* segments, int units, LayerSlots state,
                const float* values, const float* scores, float* out) {
  start_after_inputs();
  const int number = static_cast<int>(blockIdx.x) % units * kPoolThreads + static_cast<int>(threadIdx.x);
  const int64_t dim = pool.dim;
  if (number >= dim) return;
  const int64_t own_at = number + (pool.overlap ? dim : 0);
  Pooled own, next;
  next.clear();
  for (ChainWalk walk(segments, static_cast<int>(blockIdx.x) / units); walk.more; walk.advance()) {
    const DeviceSegment& segment = walk.own;
    if (!walk.holds()) {
      if (segment.state_from == kNoSlot) {
        own.clear();
        next.clear();
      } else {
        const float* const from = state.of(segment.state_from) + number;
        own.load(from, dim);
        if (pool.overlap) next.load(from + 3 * dim, dim);
      }
    }
    for (int i = 0; i < segment.n_tokens; ++i) {
      const int64_t row = segment.first_row + i;
      const int phase = (segment.first_position + i) % pool.block;
      const float* const bias = pool.bias + phase * width;
      own.add(values[row * width + own_at], scores[row * width + own_at] + bias[own_at]);
      if (pool.overlap) next.add(values[row * width + number], scores[row * width + number] + bias[number]);
      if (phase + 1 < pool.block) continue;
      out[row * dim + number] = own.value / own.sum;
      if (pool.overlap)
        own = next;
      else
        own.clear();
      next.clear();
    }
    if (segment.state_to == kNoSlot) continue;
    float* const to = state.of(segment.state_to) + number;
    own.store(to, dim);
    if (pool.overlap) next.store(to + 3 * dim, dim);
  }
}

constexpr int kWarps = 4, kThreads = kWarps * kWarp;

// Kernel parameters.
struct Store {
  const DeviceSegment* segments;
  const int32_t* segment_of_row;
  const int32_t* pages;
  int32_t n_rows, block, n_dims;
  RopeStyle style;
  float magnitude, eps;
  const float* norm;
  const float* frequencies;
  float* values;
  KvView cache;
};

template <KvType type>
__global__ void __launch_bounds__(kThreads) store_kernel(const __grid_constant__ Store store) {
  start_after_inputs();
  const int row = static_cast<int>(blockIdx.x) * kWarps + warp_id();
  if (row >= store.n_rows) return;  // Only whole warps return here.
  const DeviceSegment segment = store.segments[store.segment_of_row[row]];
  const int position = segment.first_position + row - segment.first_row, dim = store.cache.head_dim;
  if ((position + 1) % store.block != 0) return;
  const int index = position / store.block;
  float* const x = store.values + static_cast<int64_t>(row) * dim;
  float sum = 0;
  for (int i = lane_id(); i < dim; i += kWarp) sum = fmaf(x[i], x[i], sum);
  const float factor = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(dim) + store.eps);
  for (int i = lane_id(); i < dim; i += kWarp) x[i] = x[i] * factor * store.norm[i];
  __syncwarp();
  float* const turned = x + dim - store.n_dims;
  const int half = store.n_dims / 2;
  for (int i = lane_id(); i < half; i += kWarp) {
    constexpr double kTurn = 6.283185307179586;
    const double angle = static_cast<double>(index * store.block) * static_cast<double>(store.frequencies[i]);
    const auto rest = static_cast<float>(angle - kTurn * rint(angle / kTurn));
    const float cosine = cosf(rest) * store.magnitude, sine = sinf(rest) * store.magnitude;
    const int first = store.style == RopeStyle::kAdjacentPairs ? 2 * i : i;
    const int second = store.style == RopeStyle::kAdjacentPairs ? 2 * i + 1 : i + half;
    const float a = turned[first], b = turned[second];
    turned[first] = fmaf(a, cosine, -b * sine);
    turned[second] = fmaf(b, cosine, a * sine);
  }
  __syncwarp();
  const int64_t number = store.pages[segment.first_page + position / kPageTokens];
  const int slot = index % store.cache.page_rows;
  unsigned char* const page = store.cache.data + number * store.cache.page_bytes;
  if constexpr (is_8bit(type)) {
    store_codes<type>(code_row(page, slot, dim), x, dim);
  } else {
    for (int i = lane_id(); i < dim; i += kWarp) {
      if constexpr (type == KvType::kF32)
        reinterpret_cast<float*>(page)[slot * dim + i] = x[i];
      else
        reinterpret_cast<uint16_t*>(page)[slot * dim + i] = float_to_half(x[i]);
    }
  }
}

}  // namespace

void pool_blocks(Runtime& runtime, const BlockPool& pool, const RowList& rows, const LayerSlots& state,
                 const float* values, const float* scores, float* out) {
  if (rows.n_segments == 0) return;
  const int units = (pool.dim + kPoolThreads - 1) / kPoolThreads;
  const dim3 grid{static_cast<unsigned>(units) * static_cast<unsigned>(rows.n_segments), 1, 1};
  launch(runtime, pool_kernel, grid, kPoolThreads, 0, pool, pool.width(), rows.segments, units, state, values, scores,
         out);
}

void store_blocks(Runtime& runtime, const BlockStore& store) {
  const RowList& rows = *store.rows;
  if (rows.n_rows == 0) return;
  const RopeParams& rope = store.blocks.rope;
  const Store work{.segments = rows.segments,
                   .segment_of_row = rows.segment_of_row,
                   .pages = rows.pages,
                   .n_rows = rows.n_rows,
                   .block = store.blocks.block,
                   .n_dims = store.frequencies ? rope.n_dims : 0,
                   .style = rope.style,
                   .magnitude = rope.magnitude,
                   .eps = store.blocks.eps,
                   .norm = store.blocks.norm,
                   .frequencies = store.frequencies,
                   .values = store.values,
                   .cache = store.cache};
  const auto kernel = store.type == KvType::kF32    ? store_kernel<KvType::kF32>
                      : store.type == KvType::kF16  ? store_kernel<KvType::kF16>
                      : store.type == KvType::kQ8_0 ? store_kernel<KvType::kQ8_0>
                                                    : store_kernel<KvType::kFp8>;
  const auto blocks = static_cast<unsigned>((rows.n_rows + kWarps - 1) / kWarps);
  launch(runtime, kernel, dim3{blocks, 1, 1}, kThreads, 0, work);
}

}  // namespace monolith::cuda
