// The seam between the operations (ops*.cc: who computes what, on which thread) and the arithmetic
// that is compiled once per instruction set (ops_kernels_*.cc over the *-inl.h sources). A kernel
// takes one row, one head or one attention tile, never a thread pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/ops_logits.h"

namespace monolith {

inline constexpr int kLanes = 16;            // floats per vector on every instruction set
inline constexpr int kAttentionSpan = 256;   // positions whose softmax is taken in one go
inline constexpr int kTileQueries = 32;      // queries that share one reading of the pages
inline constexpr int kQueryBlock = 4;        // queries interleaved in a packed tile
inline constexpr int kScoreStride =
    kAttentionSpan + kLanes;   // not a power of two: spreads cache sets
static_assert(kPageTokens == kLanes, "one key vector holds one page");

constexpr int64_t round_up_to_lanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// A query's state over some positions: head_dim (rounded up) weighted value sums, then the largest
// score, then the sum of weights.
constexpr int64_t attention_state_floats(int64_t head_dim) {
  return round_up_to_lanes(head_dim) + kLanes;
}

// Up to kTileQueries queries that read the same KV head.
struct AttentionTile {
  int n_queries;
  int head_dim;
  const int* limits;   // [kTileQueries] positions each query sees, ascending; filled past n_queries
  const float* q;      // scaled, [kTileQueries / kQueryBlock][head_dim][kQueryBlock]
  const int32_t* pages;    // of the sequence, from position 0
  const std::byte* keys;   // page 0 of this layer and head
  const std::byte* values;
  size_t key_page_bytes, value_page_bytes;
  int64_t value_stride;
  KvType type;
  float* scores;   // [kTileQueries][kScoreStride], scratch
};

struct OpKernels {
  // May be in place.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);
  // x[j] = x[j] * own[j] + x[partner of j] * partner[j], in place.
  void (*rotate)(float* x, const float* own, const float* partner, int n_dims, RopeStyle style);
  void (*to_half)(const float* x, uint16_t* out, int64_t count);
  void (*silu_multiply)(const float* gate, const float* up, int64_t count, float* out);
  // State of every query over the positions of span `span` that it sees, into `states`
  // [kTileQueries][attention_state_floats]; a query that sees none is left undefined.
  void (*attention_span)(const AttentionTile& tile, int span, float* states);
  // Adds the state of the following span.
  void (*attention_merge)(float* state, const float* next, int head_dim);
  void (*attention_finish)(const float* state, int head_dim, float* out);
  LogitOps logits;
};

const OpKernels& op_kernels_plain();
const OpKernels& op_kernels_avx2();
const OpKernels& op_kernels_avx512();
const OpKernels& op_kernels_neon();

}   // namespace monolith
