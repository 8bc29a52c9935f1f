// The interface between the operations (*.cc, which split work across threads) and the kernels (*-inl.h, compiled once
// per instruction set by kernels_*.cc). A kernel processes one row, one head or one attention tile, and never uses a
// thread pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/ops/logits.h"

namespace monolith {

inline constexpr int kMaxHeadDim = 4096;
inline constexpr int kLanes = 16;           // Floats per vector on every instruction set.
inline constexpr int kAttentionSpan = 256;  // Positions per softmax span.
inline constexpr int kTileQueries = 32;     // Number of queries that share one pass over the KV pages.
inline constexpr int kScoreStride = kAttentionSpan + kLanes;  // Not a power of two, to spread the rows over cache sets.
static_assert(kPageTokens == kLanes, "one key vector holds one page");
static_assert(kTileQueries * kScoreStride >= kMaxHeadDim, "a query can be rotated in the memory of a tile's scores");

constexpr int64_t round_up_to_lanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// KvType::kQ8_0: number of dimensions of a head that share a scale. q8_quads() and q8_blocks() count groups of four
// dimensions and blocks of kQ8Block dimensions.
inline constexpr int kQ8Block = 32;
constexpr int q8_quads(int head_dim) { return (head_dim + 3) / 4; }
constexpr int q8_blocks(int head_dim) { return (head_dim + kQ8Block - 1) / kQ8Block; }

// KvType::kQ4_0 and kQ5_0, the packed types, have the same blocks and scales as kQ8_0. Their numbers are in
// -packed_zero() .. packed_zero() - 1. CpuKvCache in ops.h describes the layout.
constexpr bool is_packed(KvType type) { return type == KvType::kQ4_0 || type == KvType::kQ5_0; }
constexpr int packed_zero(KvType type) { return type == KvType::kQ4_0 ? 8 : 16; }
// Quads are packed in pairs: one quad in the low 4 bits of each byte, the next one in the high 4 bits.
constexpr int packed_pairs(int key_dim) { return (q8_quads(key_dim) + 1) / 2; }
constexpr int64_t packed_stride(int64_t dim) { return (dim + kQ8Block - 1) / kQ8Block * kQ8Block; }
// Offset in bytes of the scales in a page of keys, and in a page of `rows` rows with `stride` dimensions.
constexpr int64_t packed_keys_bytes(int key_dim, KvType type) {
  return int64_t{packed_pairs(key_dim)} * 4 * kPageTokens +
         (type == KvType::kQ5_0 ? int64_t{q8_blocks(key_dim)} * kPageTokens * 4 : 0);
}
constexpr int64_t packed_rows_bytes(int64_t stride, int64_t rows, KvType type) {
  return rows * (stride / 2 + (type == KvType::kQ5_0 ? stride / 8 : 0));
}
// kQ5_0 stores the highest bits of a block's numbers separately from the lower 4 bits. In keys, the highest bit of
// dimension 4 * quad + i is bit 8 * i + key_top_bit(quad).
constexpr int key_top_bit(int quad) { return (quad + 4) % 8; }
// Unpacked pages have the layout of kQ8_0, except that keys have packed_zero() instead of 128 added. A tile's scratch
// memory contains a run of kUnpackedKeys pages of keys and the last kUnpackedValues pages of values that were used.
inline constexpr int kUnpackedKeys = 4, kUnpackedValues = 8;
// Bytes of an unpacked page, rounded up to whole cache lines.
constexpr int64_t unpacked_page_bytes(int64_t dim) {
  const int64_t bytes = packed_stride(dim) * kPageTokens + packed_stride(dim) / kQ8Block * kPageTokens * 2;
  return (bytes + 63) / 64 * 64;
}
constexpr int64_t unpacked_floats(int64_t key_dim, int64_t value_dim) {
  return (kUnpackedKeys * unpacked_page_bytes(key_dim) + kUnpackedValues * unpacked_page_bytes(value_dim)) / 4;
}

// 16-bit latents (KvType::kF16, StateKind::kLatents) and the keys and values of wide heads are stored as integers of at
// most kMaxLatent, with one scale, called the step, per row and block of kLatentBlock dimensions. Queries, and the
// weights of a span's positions, are also converted to integers, so their dot products are exact 32-bit sums in any
// order. Widened latents of fewer bits are at most kMaxWidened.
//   scores   16 lanes share a block's dimensions: kLatentBlock / 16 * kMaxWidened * kMaxLatentQuery < 2^31
//   values   the weights of kWeighedTogether positions add up to at most kLatentWeights, plus half a unit each for
//            rounding: (kLatentWeights + kWeighedTogether / 2) * kMaxWidened < 2^31
inline constexpr int kLatentBlock = 256;
inline constexpr int kLatentPad = 32;  // Rows are padded to whole vectors of 16-bit integers.
inline constexpr int kMaxLatent = 16383, kMaxWidened = 16384, kMaxLatentQuery = 8191, kMaxLatentWeight = 32767;
inline constexpr int kWeighedTogether = kAttentionSpan / 2;
inline constexpr int kLatentWeights = 0x7fffffff / kMaxLatent - kWeighedTogether;
static_assert(int64_t{kLatentBlock / kLanes} * kMaxWidened * kMaxLatentQuery < int64_t{1} << 31);
static_assert(int64_t{kLatentWeights + kWeighedTogether / 2} * kMaxWidened < int64_t{1} << 31);
// Minimum head size for integer storage of keys and values (KvType::kF16). If several queries read a head, the
// bottleneck is arithmetic rather than memory, and integer dot products take half as many instructions. With smaller
// heads, the steps would take up too large a share of the memory.
inline constexpr int kWideHead = 128;
constexpr bool wide_heads(int64_t key_dim, int64_t value_dim) { return key_dim >= kWideHead && value_dim >= kWideHead; }
constexpr int latent_blocks(int64_t dim) { return static_cast<int>((dim + kLatentBlock - 1) / kLatentBlock); }
constexpr int64_t round_up_to_latents(int64_t n) { return (n + kLatentPad - 1) / kLatentPad * kLatentPad; }

// Size in floats of a query's attention state for some positions: value_dim (rounded up) weighted sums of values,
// followed by the largest score and the sum of weights.
constexpr int64_t attention_state_floats(int64_t value_dim) { return round_up_to_lanes(value_dim) + kLanes; }

// A tile of up to kTileQueries queries that use the same KV head.
struct AttentionTile {
  int n_queries;
  int key_dim, value_dim;
  // Shape [n_queries]: query i attends to positions starts[i] .. limits[i] - 1. Both arrays are ascending.
  const int* starts;
  const int* limits;
  // Scaled queries, usually [key_dim][q_stride] with q_stride >= n_queries. With keys of 8 bits or fewer: the output of
  // pack_query_q8, which fits in the same memory. With float latents: [n_queries][q_stride], where q_stride is key_dim
  // rounded up to kLanes, padded with zeros. With other latents, and with rows of 16-bit integers: the output of
  // pack_latents, [kTileQueries][key_stride], followed by the steps, [n_queries][block].
  const float* q;
  int q_stride;
  const int32_t* pages;   // Pages of the sequence, from position 0. Pages before starts[0] are not read.
  const std::byte* keys;  // Page 0 of this layer and head.
  const std::byte* values;
  size_t key_page_bytes, value_page_bytes;
  int64_t value_stride;
  KvType type;
  float soft_cap;  // 0 = no soft cap.
  float* scores;   // Scratch memory, [kTileQueries][kScoreStride].
  float* rows;     // Scratch memory of latent_scratch_floats() floats, for latents and integer rows; otherwise null.
  // Elements per row of keys, if rows are 16-bit integers or are converted to them; otherwise 0.
  int64_t key_stride = 0;
  // ALiBi: query i's score for a position is reduced by slopes[i] times its distance from limits[i] - 1. Null = no
  // ALiBi.
  const float* slopes = nullptr;
  // Position bias: bias[position - (first_query + i)] is added to query i's score for a position. first_query is the
  // position of query 0. Null = no position bias.
  const float* bias = nullptr;
  int first_query = 0;
  // Scratch memory for packed types: unpacked_floats() floats, or one unpacked page of latents. Otherwise null.
  std::byte* unpacked = nullptr;
};

// Distance between the weights of consecutive queries, in elements. A tile's scratch memory contains the weights as
// 16-bit integers, the factors of a page's scores, a span's pages as 16-bit integers with their steps, and the queries
// as tiles. For float latents, it holds one page as floats instead. For packed types, it ends with an unpacked page.
inline constexpr int kLatentWeightStride = kAttentionSpan + kLatentPad;
constexpr int64_t latent_scratch_floats(int64_t dim) {
  return kTileQueries * kLatentWeightStride / 2 + int64_t{kTileQueries} * latent_blocks(dim) * kPageTokens +
         int64_t{kAttentionSpan} * latent_blocks(dim) + kAttentionSpan * round_up_to_latents(dim) / 2 +
         (dim + 63) / 64 * kTileQueries * 32 + unpacked_page_bytes(dim) / 4;
}
static_assert(latent_scratch_floats(96) % 16 == 0);  // A thread's scratch memory consists of whole cache lines.
static_assert(unpacked_floats(1, 1) <= latent_scratch_floats(1));
static_assert(unpacked_floats(512, 512) <= latent_scratch_floats(512));
// Size in floats of a packed query with `dim` dimensions, including the steps of 16-bit integers.
constexpr int64_t packed_query_floats(int64_t dim) { return round_up_to_lanes(dim) + kLanes; }
// latents_stride(): elements per latent row in a page. latents_page_bytes(): bytes per page.
constexpr int64_t latents_stride(int64_t dim, KvType type) {
  return type == KvType::kF32 ? round_up_to_lanes(dim) : round_up_to_latents(dim);
}
constexpr int64_t latents_page_bytes(int64_t dim, KvType type, int rows = kPageTokens) {
  const int64_t stride = latents_stride(dim, type);
  const int64_t scales = q8_blocks(static_cast<int>(dim)) * 2;
  const int64_t row = type == KvType::kF32    ? stride * 4
                      : type == KvType::kF16  ? stride * 2 + latent_blocks(dim) * 4
                      : type == KvType::kQ8_0 ? stride + scales
                                              : packed_rows_bytes(stride, 1, type) + scales;
  return (row * rows + 63) / 64 * 64;
}

// Number of convolution channels that one task processes. It processes them in all rows. Large enough for efficient
// memory access, and small enough that the rows of the kernel's taps stay in the L1 cache.
inline constexpr int kConvolutionChannels = 256;

// A convolution over some channels of a segment.
struct ConvolutionTile {
  int n_channels;  // At most kConvolutionChannels.
  int conv_kernel_size;
  const float* weight;  // Shape [conv_kernel_size][kConvolutionChannels].
  const float* bias;    // Shape [n_channels]. Null = no bias.
  bool silu;
  int n_rows;
  float* x;  // Points to the first row.
  int64_t stride;
  const float* from;  // Initial state, [conv_kernel_size - 1]. Null = all zero.
  float* to;          // May equal `from`.
  int64_t state_stride;
};

// The delta rule for a block of columns of one head, over all rows of a segment.
struct DeltaTile {
  int n_rows;
  int key_dim;
  int n_columns;   // Number of values: up to 16 per block.
  const float* q;  // Points to the first row, already normalized.
  const float* k;
  const float* v;
  int64_t stride;      // Floats between rows of q, k and v.
  const float* decay;  // Already exponentiated; one per head or one per key dimension.
  const float* beta;
  int64_t decay_stride, beta_stride;
  float* out;
  int64_t out_stride;
  float* state;  // Shape [blocks][key_dim][16], updated in place.
};

// The state-space recurrence for a block of columns of one head, over all rows of a segment.
struct StateSpaceTile {
  int n_rows;
  int state_dim;
  int n_columns;   // Number of values: up to 16 per block.
  const float* x;  // Points to the first row.
  const float* b;
  const float* c;
  int64_t stride;        // Floats between rows of x.
  int64_t group_stride;  // Floats between rows of b and c.
  const float* step;     // Output of softplus: one value per row, or `n_columns` values with StateSpace::channel_steps.
  int64_t step_stride;
  bool channel_steps;
  const float* rate;  // One value, or [state_dim][rate_stride] with channel_steps.
  int64_t rate_stride;
  const float* skip;  // One value, or [n_columns] with channel_steps.
  float* out;
  int64_t out_stride;
  float* state;  // Shape [blocks][state_dim][16], updated in place.
};

// Time mixing (TimeMix) of one head, over all rows of a segment. All vectors point to the head's part.
struct TimeMixTile {
  int n_rows;
  int head_dim;
  float norm_eps;
  TimeMixInputs inputs;  // Point to the first row.
  int64_t stride;        // Floats between rows of the inputs and of `out`.
  const float* decay_bias;
  const float* bonus;
  const float* norm_weight;
  const float* norm_bias;
  const float* rate_bias;
  const float* value_bias;
  const float* key_scale;
  const float* key_rate;
  float* out;
  float* state;  // Shape [blocks][head_dim][16], updated in place.
};

// LoRA factors are stored in the order in which the kernels read them. Columns of A and outputs of B are padded with
// zeros to a multiple of kLanes. A consists of groups of kAdapterRanks ranks (the last group may have fewer); each
// group has the shape [columns / kLanes][ranks of the group][kLanes]. B has the shape [outputs / kLanes][rank][kLanes].
inline constexpr int kAdapterRanks = 4;

// Arguments of the kernel that computes scale * (A x) for one group of ranks and some rows.
struct AdapterDown {
  const void* a;  // The group of ranks in A, as floats or binary16.
  bool halves;    // Whether A is binary16.
  int n_ranks;    // At most kAdapterRanks.
  int64_t cols;
  const float* x;
  const int32_t* rows;  // Indices of the rows of x.
  int n_rows;
  float scale;
  float* out;  // The result of the first listed row for the first rank of the group.
  int64_t out_stride;
};

// Arguments of the kernel that adds B t to consecutive outputs of some rows, where t is the result of AdapterDown.
struct AdapterUp {
  const void* b;  // The first block of kLanes outputs in B.
  bool halves;
  int rank;
  int64_t count;   // Number of outputs.
  const float* t;  // Shape [n_rows][rank].
  float* out;      // The first output of row 0 (not of rows[0]).
  int64_t out_stride;
  const int32_t* rows;  // Indices of the rows of `out`.
  int n_rows;
};

struct OpKernels {
  using Gate = void (*)(const float* gate, const float* up, int64_t count, float* out);
  Gate gate(Activation activation) const {
    if (activation == Activation::kClampedSilu) return clamped_silu_multiply;
    if (activation == Activation::kSigmoid) return sigmoid_multiply;
    if (activation == Activation::kIdentity) return identity_multiply;
    if (activation == Activation::kRelu) return relu_multiply;
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
    if (activation == Activation::kSigmoid) return sigmoid;
    if (activation == Activation::kQuickGelu) return quick_gelu;
    return activation == Activation::kGelu ? gelu : silu;
  }

  // May run in place. A null weight means all ones.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);
  // A null weight means all ones; a null bias means no bias.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t dim, float* out);
  // Returns the sum of squares of x, added in the same order as in the norms.
  float (*squares)(const float* x, int64_t dim);
  // See Operations::gaussian_topk.
  void (*gaussian_topk)(float* x, float deviations, int64_t dim);
  void (*multiply)(float* x, const float* y, int64_t count);  // In place.
  void (*adapter_down)(const AdapterDown& tile);
  void (*adapter_up)(const AdapterUp& tile);
  // Computes x[j] = x[j] * own[j] + x[partner of j] * partner[j], in place.
  void (*rotate)(float* x, const float* own, const float* partner, int n_dims, RopeStyle style);
  void (*to_half)(const float* x, uint16_t* out, int64_t count);
  // Quantizes n <= kQ8Block values to numbers[kQ8Block] and a binary16 scale. Numbers beyond n are zero. If any value
  // is NaN or infinite, the scale is NaN.
  void (*quantize_q8)(const float* x, int n, int8_t* numbers, uint16_t* scale);
  // Like quantize_q8, but to numbers in -zero .. zero - 1. The scale may be negative: the value of the largest
  // magnitude becomes -zero.
  void (*quantize_packed)(const float* x, int n, int zero, int8_t* numbers, uint16_t* scale);
  // Rotates keys, values, queries or results of packed types in place (ops/attention_packed-inl.h).
  void (*rotate_hadamard)(float* x, int64_t dim);
  // Converts up to kLatentBlock floats to integers of at most `most` and returns their step. Pads with zeros to a
  // multiple of kLatentPad.
  float (*pack_latents)(const float* x, int count, int most, int16_t* to);
  // Packs query i of a tile, multiplied by `scale`. `zero`: the offset that was added to the numbers of the keys.
  void (*pack_query_q8)(const float* x, int key_dim, float scale, int zero, int i, int stride, float* packed);
  // May run in place.
  Gate silu_multiply, gelu_multiply, clamped_silu_multiply, sigmoid_multiply, identity_multiply, quick_gelu_multiply,
      relu_multiply;
  // Gating with clamped values; `limit` must be greater than 0. For of_input, see Gating::limits_input.
  void (*limited_multiply)(Gate activation, const float* gate, const float* up, int64_t count, float limit,
                           bool of_input, float* out);
  Plain silu, gelu, relu_squared, quick_gelu;  // In place.
  void (*xielu)(const Xielu& params, float* x, int64_t count);
  void (*scale)(float* x, int64_t count, float factor);
  // Computes x[i] = cap * tanh(x[i] / cap), in place. Requires cap > 0.
  void (*soft_cap)(float* x, int64_t count, float cap);
  // Computes x += factor * y * g, where g is sigmoid(*gate), or 1 if gate is null.
  void (*add_scaled)(float* x, const float* y, float factor, const float* gate, int64_t count);
  // Computes the state of every query over those positions of span `span` to which the query attends, and stores it in
  // `states` [kTileQueries][attention_state_floats]. The state of a query that attends to none of them is undefined.
  void (*attention_span)(const AttentionTile& tile, int span, float* states);
  // Sparse-attention indexer: scores[position] += sum over the tile's queries of weight * max(0, query . latent row),
  // query by query. If `first` is set, the scores are initialized rather than added to. `next` is the page to prefetch.
  void (*index_page)(const AttentionTile& tile, const std::byte* page, const std::byte* next, const float* weights,
                     bool first, float* scores);
  // Merges the tile's states over span `span`, given in `next`, into the states over the spans before it. If a query
  // attends to nothing before `span`, its state is replaced.
  void (*attention_merge_tile)(const AttentionTile& tile, int span, float* states, const float* next);
  // Merges one query's states over the next `count` spans into `state`. The states are `stride` floats apart.
  void (*attention_merge)(float* state, const float* next, int64_t stride, int count, int value_dim);
  void (*attention_finish)(const float* state, int value_dim, float* out);
  void (*convolve)(const ConvolutionTile& tile);
  // Computes x *= factor / max(sqrt(sum of squares), eps).
  void (*l2_norm)(float* x, float eps, float factor, int64_t dim);
  // Computes x[i] = exp(rate * softplus(x[i] + bias[i])). With rate_step 0, all elements have the same rate; with
  // rate_step 1, each element has its own.
  void (*decays)(float* x, const float* bias, const float* rate, int rate_step, int64_t count);
  // x[i] = 1 / (1 + exp(-x[i])).
  void (*sigmoid)(float* x, int64_t count);
  // The most efficient number of column blocks to process together.
  int delta_blocks;
  // Processes either one block or delta_blocks blocks.
  void (*delta)(const DeltaTile& tile, bool channel_decay);
  // x[i] = log(1 + exp(x[i] + bias[i])).
  void (*softplus)(float* x, const float* bias, int64_t count);
  // Processes either one block or delta_blocks blocks.
  void (*state_space)(const StateSpaceTile& tile);
  // difference = previous - x, element by element.
  void (*subtract)(const float* previous, const float* x, int64_t count, float* difference);
  // See ShiftedInput. `shift` may be null.
  void (*shifted_input)(const float* x, const float* difference, const float* mu, const float* shift, int64_t count,
                        float* out);
  void (*time_mix)(const TimeMixTile& tile, bool delta);
  LogitOps logits;
};

const OpKernels& op_kernels_plain();
const OpKernels& op_kernels_avx2();
const OpKernels& op_kernels_avx512();
const OpKernels& op_kernels_neon();
// Replaces the kernels for which `arithmetic` uses AMX.
void use_amx_attention(OpKernels& kernels, Arithmetic arithmetic);

}  // namespace monolith
