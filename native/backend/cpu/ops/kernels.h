// The seam between the operations (*.cc: who computes what, on which thread) and the arithmetic
// that is compiled once per instruction set (kernels_*.cc over the *-inl.h sources). A kernel
// takes one row, one head or one attention tile, never a thread pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/ops/logits.h"

namespace monolith {

inline constexpr int kLanes = 16;                             // floats per vector on every instruction set
inline constexpr int kAttentionSpan = 256;                    // positions whose softmax is taken in one go
inline constexpr int kTileQueries = 32;                       // queries that share one reading of the pages
inline constexpr int kScoreStride = kAttentionSpan + kLanes;  // not a power of two: spreads cache sets
static_assert(kPageTokens == kLanes, "one key vector holds one page");

constexpr int64_t round_up_to_lanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// KvType::kQ8_0: dimensions of a head that share a scale, four dimensions in a row (a quad), and
// what the layouts count by.
inline constexpr int kQ8Block = 32;
constexpr int q8_quads(int head_dim) { return (head_dim + 3) / 4; }
constexpr int q8_blocks(int head_dim) { return (head_dim + kQ8Block - 1) / kQ8Block; }

// 16-bit latents (KvType::kF16, StateKind::kLatents), and keys and values of wide heads: whole numbers of at most kMostLatent,
// which count by a step for each row and kLatentBlock of its dimensions. Queries, and the weights of a span's positions, become whole numbers too, so
// that their products are exact sums of 32 bits, whatever the order:
//   scores   16 lanes share a block's dimensions: kLatentBlock / 16 * kMostLatent * kMostLatentQuery < 2^31
//   values   the weights of kWeighedTogether positions add up to kLatentWeights at most, and half a unit each for
//            rounding: (kLatentWeights + kWeighedTogether / 2) * kMostLatent < 2^31
inline constexpr int kLatentBlock = 256;
inline constexpr int kLatentPad = 32;  // rows are padded to whole vectors of 16-bit numbers
inline constexpr int kMostLatent = 16383, kMostLatentQuery = 8191, kMostLatentWeight = 32767;
inline constexpr int kWeighedTogether = kAttentionSpan / 2;
inline constexpr int kLatentWeights = 0x7fffffff / kMostLatent - kWeighedTogether;
static_assert(int64_t{kLatentBlock / kLanes} * kMostLatent * kMostLatentQuery < int64_t{1} << 31);
// Heads whose keys and values both have so many dimensions and more are kept so (KvType::kF16). Where several queries read a
// head, products bind and not memory, and those of whole numbers take half the instructions; of narrow heads the steps would
// take more of it.
inline constexpr int kWideHead = 128;
constexpr bool wide_heads(int64_t key_dim, int64_t value_dim) { return key_dim >= kWideHead && value_dim >= kWideHead; }
constexpr int latent_blocks(int64_t dim) { return static_cast<int>((dim + kLatentBlock - 1) / kLatentBlock); }
constexpr int64_t round_up_to_latents(int64_t n) { return (n + kLatentPad - 1) / kLatentPad * kLatentPad; }

// A query's state over some positions: value_dim (rounded up) weighted value sums, then the largest
// score, then the sum of weights.
constexpr int64_t attention_state_floats(int64_t value_dim) { return round_up_to_lanes(value_dim) + kLanes; }

// Up to kTileQueries queries that read the same KV head.
struct AttentionTile {
  int n_queries;
  int key_dim, value_dim;
  // [n_queries] query i sees positions starts[i] .. limits[i] - 1; both ascend.
  const int* starts;
  const int* limits;
  // Scaled, [key_dim][q_stride], q_stride >= n_queries; for KvType::kQ8_0 what pack_query_q8 made
  // of them, in no more memory. For latents of any type [n_queries][q_stride], q_stride being key_dim rounded up to
  // kLanes, the rest zero. Where rows are whole numbers what pack_latents made of them, [kTileQueries][key_stride], and
  // behind these the steps, [n_queries][block].
  const float* q;
  int q_stride;
  const int32_t* pages;   // of the sequence, from position 0; those before starts[0] are not read
  const std::byte* keys;  // page 0 of this layer and head
  const std::byte* values;
  size_t key_page_bytes, value_page_bytes;
  int64_t value_stride;
  KvType type;
  float soft_cap;  // 0: none
  float* scores;   // [kTileQueries][kScoreStride], scratch
  float* rows;     // latents and whole numbers: scratch, latent_scratch_floats(); else null
  // numbers of a row of keys where rows are 16-bit whole numbers, or are made such; 0: they are not
  int64_t key_stride = 0;
};

// Latents: weights of a tile's queries as 16-bit numbers, so many apart; factors of a page's scores; a span's pages as 16-bit
// numbers, and their steps. In their place a page as floats.
inline constexpr int kLatentWeightStride = kAttentionSpan + kLatentPad;
constexpr int64_t latent_scratch_floats(int64_t dim) {
  return kTileQueries * kLatentWeightStride / 2 + int64_t{kTileQueries} * latent_blocks(dim) * kPageTokens +
         int64_t{kAttentionSpan} * latent_blocks(dim) + kAttentionSpan * round_up_to_latents(dim) / 2;
}
// Floats that a query of so many dimensions is packed into, and the steps of 16-bit numbers.
constexpr int64_t packed_query_floats(int64_t dim) { return round_up_to_lanes(dim) + kLanes; }
// Numbers of a row of latents as it lies in its page, and bytes of a page.
constexpr int64_t latents_stride(int64_t dim, KvType type) {
  return type == KvType::kF32 ? round_up_to_lanes(dim) : round_up_to_latents(dim);
}
constexpr int64_t latents_page_bytes(int64_t dim, KvType type, int rows = kPageTokens) {
  const int64_t stride = latents_stride(dim, type);
  const int64_t row = type == KvType::kF32   ? stride * 4
                      : type == KvType::kF16 ? stride * 2 + latent_blocks(dim) * 4
                                             : stride + q8_blocks(static_cast<int>(dim)) * 2;
  return (row * rows + 63) / 64 * 64;
}

// Up to this many channels of a convolution are taken through all rows at a time: enough that rows are read in pieces
// worth fetching, few enough that the taps' rows stay in the first cache.
inline constexpr int kConvolutionChannels = 256;

// Some channels of a segment.
struct ConvolutionTile {
  int n_channels;  // up to kConvolutionChannels
  int n_taps;
  const float* weight;  // [n_taps][kConvolutionChannels]
  const float* bias;    // [n_channels]; null: none
  bool silu;
  int n_rows;
  float* x;  // of the first row
  int64_t stride;
  const float* from;  // state, [n_taps - 1]; null: zero
  float* to;          // may be `from`
  int64_t state_stride;
};

// A block of columns of one head, over a segment.
struct DeltaTile {
  int n_rows;
  int key_dim;
  int n_columns;   // values: up to 16 for each block
  const float* q;  // of the first row, past the norm
  const float* k;
  const float* v;
  int64_t stride;      // of these three
  const float* decay;  // past the exponential; of the head, or of each dimension of the key
  const float* beta;
  int64_t decay_stride, beta_stride;
  float* out;
  int64_t out_stride;
  float* state;  // [blocks][key_dim][16], carried on in place
};

// A block of columns of one head of a state space, over a segment.
struct StateSpaceTile {
  int n_rows;
  int state_dim;
  int n_columns;   // values: up to 16 for each block
  const float* x;  // of the first row
  const float* b;
  const float* c;
  int64_t stride;     // of these three
  const float* step;  // past the softplus
  int64_t step_stride;
  float rate, skip;
  float* out;
  int64_t out_stride;
  float* state;  // [blocks][state_dim][16], carried on in place
};

struct OpKernels {
  using Gate = void (*)(const float* gate, const float* up, int64_t count, float* out);
  Gate gate(Activation activation) const {
    if (activation == Activation::kClampedSilu) return clamped_silu_multiply;
    if (activation == Activation::kSigmoid) return sigmoid_multiply;
    if (activation == Activation::kIdentity) return identity_multiply;
    if (activation == Activation::kQuickGelu) return quick_gelu_multiply;
    return activation == Activation::kGelu ? gelu_multiply : silu_multiply;
  }

  void gated(const Gating& gating, const float* gate_values, const float* up, int64_t count, float* out) const {
    if (gating.limit > 0)
      return limited_multiply(gate(gating.activation), gate_values, up, count, gating.limit, gating.limits_input, out);
    gate(gating.activation)(gate_values, up, count, out);
  }
  using Plain = void (*)(float* x, int64_t count);
  Plain plain(Activation activation) const {
    if (activation == Activation::kReluSquared) return relu_squared;
    if (activation == Activation::kQuickGelu) return quick_gelu;
    return activation == Activation::kGelu ? gelu : silu;
  }

  // May be in place. weight null: all 1.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);
  // weight null: all 1; bias null: none.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t dim, float* out);
  float (*squares)(const float* x, int64_t dim);  // their sum, as norms take it
  // See Operations::keep_outliers.
  void (*keep_outliers)(float* x, float deviations, int64_t dim);
  void (*multiply)(float* x, const float* y, int64_t count);  // in place
  // x[j] = x[j] * own[j] + x[partner of j] * partner[j], in place.
  void (*rotate)(float* x, const float* own, const float* partner, int n_dims, RopeStyle style);
  void (*to_half)(const float* x, uint16_t* out, int64_t count);
  // n <= kQ8Block values to numbers[kQ8Block] and the scale, binary16, by which they count; numbers
  // past n are zero. A value that is NaN or infinite makes the scale NaN.
  void (*quantize_q8)(const float* x, int n, int8_t* numbers, uint16_t* scale);
  // Up to kLatentBlock numbers to whole ones of at most `most`, by a step, which is returned. Written with zeros up to a
  // multiple of kLatentPad.
  float (*pack_latents)(const float* x, int count, int most, int16_t* to);
  // Query i of a tile, times `scale`.
  void (*pack_query_q8)(const float* x, int key_dim, float scale, int i, int stride, float* packed);
  // May be in place.
  Gate silu_multiply, gelu_multiply, clamped_silu_multiply, sigmoid_multiply, identity_multiply, quick_gelu_multiply;
  // Gating with a limit, above 0; of_input: Gating::limits_input.
  void (*limited_multiply)(Gate activation, const float* gate, const float* up, int64_t count, float limit,
                           bool of_input, float* out);
  Plain silu, gelu, relu_squared, quick_gelu;  // in place
  void (*xielu)(const Xielu& params, float* x, int64_t count);
  void (*scale)(float* x, int64_t count, float factor);
  // x[i] = cap * tanh(x[i] / cap), in place; cap > 0.
  void (*soft_cap)(float* x, int64_t count, float cap);
  // x += factor * y, times sigmoid(*gate) unless that is null.
  void (*add_scaled)(float* x, const float* y, float factor, const float* gate, int64_t count);
  // State of every query over the positions of span `span` that it sees, into `states`
  // [kTileQueries][attention_state_floats]; a query that sees none is left undefined.
  void (*attention_span)(const AttentionTile& tile, int span, float* states);
  // scores[position] += the tile's queries' weights times their products with the page's rows of latents where these
  // are positive, query by query. `first`: there is nothing yet to add to; `next`: the page that comes after.
  void (*index_page)(const AttentionTile& tile, const std::byte* page, const std::byte* next, const float* weights,
                     bool first, float* scores);
  // Adds the tile's states over span `span`, `next`, to those over the spans before it; those of a
  // query that sees nothing before `span` are replaced.
  void (*attention_merge_tile)(const AttentionTile& tile, int span, float* states, const float* next);
  // Adds one query's states over the following `count` spans, `stride` floats apart.
  void (*attention_merge)(float* state, const float* next, int64_t stride, int count, int value_dim);
  void (*attention_finish)(const float* state, int value_dim, float* out);
  void (*convolve)(const ConvolutionTile& tile);
  // x *= factor / max(sqrt(sum of squares), eps).
  void (*l2_norm)(float* x, float eps, float factor, int64_t dim);
  // x[i] = exp(rate * softplus(x[i] + bias[i])), `rate_step` 0: one rate for all, 1: one each.
  void (*decays)(float* x, const float* bias, const float* rate, int rate_step, int64_t count);
  // x[i] = 1 / (1 + exp(-x[i])).
  void (*sigmoid)(float* x, int64_t count);
  // Blocks of columns that are worth taking together.
  int delta_blocks;
  // Of one or delta_blocks blocks.
  void (*delta)(const DeltaTile& tile, bool channel_decay);
  // x[i] = log(1 + exp(x[i] + bias[i])).
  void (*softplus)(float* x, const float* bias, int64_t count);
  // Of one or delta_blocks blocks.
  void (*state_space)(const StateSpaceTile& tile);
  LogitOps logits;
};

const OpKernels& op_kernels_plain();
const OpKernels& op_kernels_avx2();
const OpKernels& op_kernels_avx512();
const OpKernels& op_kernels_neon();

}  // namespace monolith
