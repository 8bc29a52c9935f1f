// The seam between the operations (*.cc: who computes what, on which thread) and the arithmetic
// that is compiled once per instruction set (kernels_*.cc over the *-inl.h sources). A kernel
// takes one row, one head or one attention tile, never a thread pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/ops/logits.h"

namespace monolith {

inline constexpr int kLanes = 16;            // floats per vector on every instruction set
inline constexpr int kAttentionSpan = 256;   // positions whose softmax is taken in one go
inline constexpr int kTileQueries = 32;      // queries that share one reading of the pages
inline constexpr int kScoreStride =
    kAttentionSpan + kLanes;   // not a power of two: spreads cache sets
static_assert(kPageTokens == kLanes, "one key vector holds one page");

constexpr int64_t round_up_to_lanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// KvType::kQ8_0: dimensions of a head that share a scale, four dimensions in a row (a quad), and
// what the layouts count by.
inline constexpr int kQ8Block = 32;
constexpr int q8_quads(int head_dim) { return (head_dim + 3) / 4; }
constexpr int q8_blocks(int head_dim) { return (head_dim + kQ8Block - 1) / kQ8Block; }

// A query's state over some positions: head_dim (rounded up) weighted value sums, then the largest
// score, then the sum of weights.
constexpr int64_t attention_state_floats(int64_t head_dim) {
  return round_up_to_lanes(head_dim) + kLanes;
}

// Up to kTileQueries queries that read the same KV head.
struct AttentionTile {
  int n_queries;
  int head_dim;
  // [n_queries] query i sees positions starts[i] .. limits[i] - 1; both ascend.
  const int* starts;
  const int* limits;
  // Scaled, [head_dim][q_stride], q_stride >= n_queries; for KvType::kQ8_0 what pack_query_q8 made
  // of them, in no more memory.
  const float* q;
  int q_stride;
  const int32_t* pages;    // of the sequence, from position 0; those before starts[0] are not read
  const std::byte* keys;   // page 0 of this layer and head
  const std::byte* values;
  size_t key_page_bytes, value_page_bytes;
  int64_t value_stride;
  KvType type;
  float soft_cap;   // 0: none
  float* scores;    // [kTileQueries][kScoreStride], scratch
};

struct OpKernels {
  using Gate = void (*)(const float* gate, const float* up, int64_t count, float* out);
  Gate gate(Activation activation) const {
    if (activation == Activation::kClampedSilu) return clamped_silu_multiply;
    return activation == Activation::kGelu ? gelu_multiply : silu_multiply;
  }

  // May be in place.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);
  // x[j] = x[j] * own[j] + x[partner of j] * partner[j], in place.
  void (*rotate)(float* x, const float* own, const float* partner, int n_dims, RopeStyle style);
  void (*to_half)(const float* x, uint16_t* out, int64_t count);
  // n <= kQ8Block values to numbers[kQ8Block] and the scale, binary16, by which they count; numbers
  // past n are zero. A value that is NaN or infinite makes the scale NaN.
  void (*quantize_q8)(const float* x, int n, int8_t* numbers, uint16_t* scale);
  // Query i of a tile, times `scale`.
  void (*pack_query_q8)(const float* x, int head_dim, float scale, int i, int stride,
                        float* packed);
  // May be in place.
  Gate silu_multiply, gelu_multiply, clamped_silu_multiply;
  void (*scale)(float* x, int64_t count, float factor);
  // x[i] = cap * tanh(x[i] / cap), in place; cap > 0.
  void (*soft_cap)(float* x, int64_t count, float cap);
  // x += factor * y, times sigmoid(*gate) unless that is null.
  void (*add_scaled)(float* x, const float* y, float factor, const float* gate, int64_t count);
  // State of every query over the positions of span `span` that it sees, into `states`
  // [kTileQueries][attention_state_floats]; a query that sees none is left undefined.
  void (*attention_span)(const AttentionTile& tile, int span, float* states);
  // Adds the tile's states over span `span`, `next`, to those over the spans before it; those of a
  // query that sees nothing before `span` are replaced.
  void (*attention_merge_tile)(const AttentionTile& tile, int span, float* states,
                               const float* next);
  // Adds one query's states over the following `count` spans, `stride` floats apart.
  void (*attention_merge)(float* state, const float* next, int64_t stride, int count, int head_dim);
  void (*attention_finish)(const float* state, int head_dim, float* out);
  LogitOps logits;
};

const OpKernels& op_kernels_plain();
const OpKernels& op_kernels_avx2();
const OpKernels& op_kernels_avx512();
const OpKernels& op_kernels_neon();

}   // namespace monolith
