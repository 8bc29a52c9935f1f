#include "backend/cpu/fixed16/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace monolith {
namespace {

constexpr float kLog2E = 1.44269504f;
constexpr int64_t kLaneDims = 16;

// Returns the largest magnitude that the integers of a query and a key may have so that their dot product fits in 31
// bits.
int most_of(int head_dim) {
  return std::min(32767, static_cast<int>(std::sqrt(static_cast<double>(0x7fffffff) / head_dim)) - 1);
}

// Layout of EncoderKeys::memory: 16-bit integers first, then floats.
struct KeyLayout {
  int64_t positions;  // Rounded up to whole groups of kFixed16Lanes positions.
  int64_t value_lanes;
  int64_t key_head, value_head;                  // Integers per head.
  int64_t values_at;                             // Offset, in integers.
  int64_t key_steps_at, value_steps_at, floats;  // Offsets and total size, in floats.

  explicit KeyLayout(int max_rows, int n_heads, int head_dim)
      : positions((int64_t{max_rows} + kFixed16Lanes - 1) / kFixed16Lanes * kFixed16Lanes),
        value_lanes((head_dim + kLaneDims - 1) / kLaneDims * kLaneDims),
        key_head(positions * ((head_dim + 1) / 2) * 2),
        value_head(positions * value_lanes),
        values_at(n_heads * key_head),
        key_steps_at(n_heads * (key_head + value_head) / 2),
        value_steps_at(key_steps_at + n_heads * positions),
        floats(value_steps_at + n_heads * positions) {}
  explicit KeyLayout(const EncoderKeys& keys) : KeyLayout(keys.max_rows, keys.n_heads, keys.head_dim) {}
};

struct Scratch {
  alignas(64) int16_t q[kFixed16Queries * kFixed16Block];
  alignas(64) int32_t scores[kFixed16Queries * kFixed16ScoreStride];
  alignas(64) int16_t weights[kFixed16Queries * kFixed16Block];
  alignas(64) float sums[kFixed16Queries * kFixed16MostHead];
  alignas(64) float q_steps[kFixed16Queries];
};

}  // namespace

size_t Fixed16AttentionScratch::bytes_for(int threads) { return static_cast<size_t>(threads) * sizeof(Scratch); }

Status Fixed16AttentionScratch::reserve(int threads) {
  if (memory_.size() >= bytes_for(threads)) return {};
  auto memory = Mapping::create(bytes_for(threads));
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  return {};
}

std::byte* Fixed16AttentionScratch::of(int thread) const {
  return memory_.data() + static_cast<size_t>(thread) * sizeof(Scratch);
}

int64_t fixed16_key_floats(int max_rows, int n_heads, int head_dim) {
  return KeyLayout(max_rows, n_heads, head_dim).floats;
}

void fixed16_store_keys(const Fixed16Kernels& kernels, ThreadPool& pool, const EncoderKeys& keys, const float* k,
                        const float* v, int64_t stride, int first_row, int n_rows) {
  assert(first_row >= 0 && first_row + n_rows <= keys.max_rows && keys.head_dim <= kFixed16MostHead);
  const KeyLayout layout(keys);
  auto* const integers = reinterpret_cast<int16_t*>(keys.memory);
  const int dim = keys.head_dim, pairs = (dim + 1) / 2, most = most_of(dim);
  // Work is split into groups of kFixed16Lanes positions, so that no two threads write to the same vector.
  const int64_t first_group = first_row / kFixed16Lanes,
                end_group = (int64_t{first_row} + n_rows + kFixed16Lanes - 1) / kFixed16Lanes;
  pool.parallel_for((end_group - first_group) * keys.n_heads, 4, [&](int64_t begin, int64_t end, int) {
    alignas(64) int16_t packed[kFixed16Block];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i % keys.n_heads, group = first_group + i / keys.n_heads;
      int16_t* const key_group = integers + head * layout.key_head + group * pairs * kFixed16Lanes * 2;
      int16_t* const values = integers + layout.values_at + head * layout.value_head;
      float* const key_steps = keys.memory + layout.key_steps_at + head * layout.positions;
      float* const value_steps = keys.memory + layout.value_steps_at + head * layout.positions;
      const int64_t from = std::max<int64_t>(first_row, group * kFixed16Lanes);
      const int64_t to = std::min<int64_t>(int64_t{first_row} + n_rows, (group + 1) * kFixed16Lanes);
      for (int64_t row = from; row < to; ++row) {
        const int64_t lane = row % kFixed16Lanes, at = (row - first_row) * stride + head * dim;
        key_steps[row] = kernels.pack(k + at, dim, most, packed);
        for (int pair = 0; pair < pairs; ++pair) {
          key_group[(pair * kFixed16Lanes + lane) * 2] = packed[2 * pair];
          key_group[(pair * kFixed16Lanes + lane) * 2 + 1] = packed[2 * pair + 1];
        }
        value_steps[row] = kernels.pack(v + at, dim, kFixed16MostValue, packed);
        for (int d = 0; d < dim; ++d) values[(row / 2 * layout.value_lanes + d) * 2 + row % 2] = packed[d];
      }
    }
  });
}

void fixed16_attend(const Fixed16Kernels& kernels, ThreadPool& pool, const Fixed16AttentionScratch& scratch,
                    const RowAttention& call) {
  const EncoderKeys& keys = call.keys;
  const KeyLayout layout(keys);
  const auto* const integers = reinterpret_cast<const int16_t*>(keys.memory);
  const int dim = keys.head_dim, most = most_of(dim);
  const int64_t tiles = (int64_t{call.n_rows} + kFixed16Queries - 1) / kFixed16Queries;
  pool.parallel_for(tiles * keys.n_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    auto& own = *reinterpret_cast<Scratch*>(scratch.of(thread));
    for (int64_t piece = begin; piece < end; ++piece) {
      // Tiles of the same head are computed one after another, so the head's keys and values stay in the cache.
      const int64_t head = piece / tiles, first = piece % tiles * kFixed16Queries;
      const int n = static_cast<int>(std::min<int64_t>(kFixed16Queries, call.n_rows - first));
      for (int i = 0; i < n; ++i)
        own.q_steps[i] =
            call.scale * kLog2E *
            kernels.pack(call.q + (first + i) * call.stride + head * dim, dim, most, own.q + i * kFixed16Block);
      kernels.attend({.n_queries = n,
                      .head_dim = dim,
                      .value_lanes = layout.value_lanes,
                      .q = own.q,
                      .q_steps = own.q_steps,
                      .starts = call.starts + first,
                      .limits = call.limits + first,
                      .keys = integers + head * layout.key_head,
                      .key_steps = keys.memory + layout.key_steps_at + head * layout.positions,
                      .values = integers + layout.values_at + head * layout.value_head,
                      .value_steps = keys.memory + layout.value_steps_at + head * layout.positions,
                      .scores = own.scores,
                      .weights = own.weights,
                      .sums = own.sums,
                      .out = call.out + first * call.stride + head * dim,
                      .out_stride = call.stride});
    }
  });
}

}  // namespace monolith
