// The operations of the forward pass. A model calls them in order between begin_step() and end_step(). No operation
// allocates memory. In the comments, n_rows is the value of a RowCount. Every backend implements every operation: there
// are no defaults. Loading a model fails if it needs a feature that the backend lacks.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "backend/adapter.h"
#include "backend/kv_cache.h"
#include "backend/matrix.h"
#include "backend/moe.h"
#include "backend/recurrence.h"
#include "backend/row_count.h"

namespace monolith {

// kAdjacentPairs: layout of Llama GGUF files. kHalves: NeoX layout.
enum class RopeStyle : uint8_t { kAdjacentPairs, kHalves };

struct RopeParams {
  RopeStyle style;
  int n_dims;                      // Number of leading dimensions of each head that are rotated.
  const float* inverse_frequency;  // Host memory, n_dims/2 values: angle = position * inverse_frequency[i].
  float magnitude = 1.0f;          // Factor of cos and sin (YaRN); otherwise 1.
  // M-RoPE, in host memory: for each of the n_dims/2 pairs, the index of the number in the token's RopePosition that
  // rotates the pair (0 time, 1 height, 2 width). If null, the first number rotates all pairs.
  const uint8_t* axes = nullptr;
};

// Queries for attention over latents (MLA): [n_rows][n_heads][to_dim] at `to`, where to_dim is the size of a latent
// row. A query consists of the original query projected into the value space, which the caller has stored there,
// followed by the original query's last dimensions.
struct LatentQueries {
  const float* from;    // Shape [n_rows][n_heads][from_dim]: the original queries.
  int64_t from_stride;  // Floats between rows.
  int from_dim;
  float* to;
  int64_t to_stride;
  int n_heads;
};

// A batched matmul with one matrix per head: out[row][head] = W_head x[row][head]. The matrices are stored one after
// another. Head h's matrix starts at row h * (weight->rows / n_heads), a multiple of kExpertRowMultiple, and has `rows`
// rows.
struct BatchedMatmul {
  const Matrix* weight;
  int n_heads;
  int64_t rows;
  const float* x;
  int64_t x_stride, x_head_stride;  // Floats between rows and between heads.
  float* out;
  int64_t out_stride, out_head_stride;
};

// Sparse-attention indexer: selects the positions to which each token attends. `layer` of the cache stores one latent
// row per position, which is the key for all `n_heads` indexer queries.
struct SparseIndexer {
  const float* q;        // Shape [n_rows][n_heads][key_dim], dense.
  const float* weights;  // Shape [n_rows][n_heads], dense.
  int n_heads;
  int layer;
  int most;       // top_k: number of positions to select; equals KvShape::most_chosen.
  int block = 1;  // Positions per row of the layer. If above 1, whole blocks of positions are selected.
};

// Parameters of one layer's attention.
struct AttentionParams {
  float scale;  // Factor of the attention scores, usually 1 / sqrt(head_dim).
  // Sliding window: a token at position p attends to positions p - window + 1 .. p. 0 = all positions up to p.
  int window = 0;
  // Chunked attention: a token attends from the last multiple of `window` up to its own position.
  bool chunked = false;
  float soft_cap = 0.0f;  // Scores become soft_cap * tanh(score / soft_cap). 0 = no soft cap.
  // Attention sinks, in backend memory: one logit per query head. The logit is part of the softmax, but has no value.
  // Null = no sinks.
  const float* sinks = nullptr;
  // If temperature_scale is not 0, queries at position p are multiplied by 1 + temperature_scale ln(1 + floor((p +
  // temperature_offset) / temperature_length)).
  float temperature_scale = 0.0f;
  int temperature_length = 1, temperature_offset = 0;
  // ALiBi (Press et al. 2021, arXiv:2108.12409): if above 0, d * alibi_slope() is subtracted from the scaled and capped
  // score of a position at distance d. Not for latents.
  float max_alibi_bias = 0.0f;
  // Sparse attention, for latents only: the positions that select_positions() selected, [n_rows][most_chosen] integers
  // of 32 bits. A token with more than most_chosen positions attends only to these. If null, tokens attend to all
  // positions.
  const float* chosen = nullptr;
  int most_chosen = 0;
  // Compressed attention, for latents only: if `block` is above 0, a token attends to its sliding window and to all
  // complete blocks of `block` positions up to its own. `block_layer` of the cache stores one row per block. If a token
  // has more than most_chosen blocks, it attends only to the selected ones.
  int block = 0, block_layer = -1;
};

// Returns the ALiBi slope of query head `head`. For a power-of-two number of heads, the slopes form a geometric
// sequence. For other numbers, the remaining heads use every second slope of twice as many heads.
inline float alibi_slope(float max_bias, int head, int n_heads) {
  int power = 1;
  while (2 * power <= n_heads) power *= 2;
  const float exponent = head < power ? static_cast<float>(head + 1) : static_cast<float>(head - power) + 0.5f;
  return std::exp2(-max_bias * exponent / static_cast<float>(power));
}

// Arguments of Operations::rope_and_store(). Strides are floats between rows.
struct RopeCall {
  RopeParams rope;
  std::span<const Segment> segments;
  float* q;  // Shape [n_rows][n_heads][key_dim].
  int64_t q_stride;
  int n_heads;
  float* k;  // Shape [n_rows][n_kv_heads][key_dim], or null.
  int64_t k_stride;
  const float* v;  // Shape [n_rows][n_kv_heads][value_dim], or null.
  int64_t v_stride;
  int layer;
  KvCache& cache;
};

// Arguments of Operations::rope_and_store_latents().
struct LatentsCall {
  RopeParams rope;
  std::span<const Segment> segments;
  LatentQueries queries;
  float* rows;  // Shape [n_rows][row_stride].
  int64_t row_stride;
  int layer;
  KvCache& cache;
};

// Arguments of Operations::attention(). Strides are floats between rows.
struct AttentionCall {
  std::span<const Segment> segments;
  const float* q;  // Shape [n_rows][n_heads][key_dim].
  int64_t q_stride;
  int n_heads;
  int layer;
  const KvCache& cache;
  AttentionParams params;
  float* out;  // Shape [n_rows][n_heads][value_dim].
  int64_t out_stride;
};

// How rows that represent blocks of positions are stored. A row that completes a block is normalized, and its last
// rope.n_dims elements are rotated by the block's first position.
struct BlockRows {
  RopeParams rope;
  int block;
  const float* norm;  // Backend memory: weights of the norm.
  float eps;
  int layer;  // Layer of the cache.
};

// Hyper-connections: several residual streams that are mixed before and after each block (manifold-constrained
// hyper-connections, arXiv:2512.24880). A matrix computes n_streams * (n_streams + 2) mixing coefficients per token.
// Each is multiplied by a scale and gets a base added:
//   in[s] = sigmoid + eps: weight of stream s in the input of the block
//   out[s] = 2 sigmoid: weight of the block's output in stream s
//   between[from][to]: softmax over `to`, + eps, then normalized alternately over `from` and `to` until both sum to one
inline constexpr int kMaxStreams = 8;
struct HyperConnections {
  int n_streams = 0;
  int iterations = 0;  // Number of normalization passes. The last one is over `from`.
  float eps = 0;
  bool reads_only = false;       // Only the n_streams coefficients `in` are computed.
  const float* scale = nullptr;  // Backend memory: scales of in, out and between.
  const float* base = nullptr;   // Backend memory: base of each coefficient.

  int64_t numbers() const { return int64_t{n_streams} * (reads_only ? 1 : n_streams + 2); }
};

// The activation xIELU (arXiv:2411.13010). With a = positive, b = negative and c = linear:
//   a x^2 + c x for x > 0, otherwise b (expm1(min(x, least)) - x) + c x
struct Xielu {
  float positive = 0, negative = 0, linear = 0, least = 0;
};

// One matmul of a group that shares an input: out[row * out_stride + r] = (add_to_out ? out : 0) + bias[r] + W x[row].
struct MatmulTarget {
  const Matrix* weight;
  float* out;
  int64_t out_stride;           // Floats between rows of `out`.
  const float* bias = nullptr;  // Backend memory, `rows` floats.
  bool add_to_out = false;      // Add to `out` (residual connection).
  bool never_fast = false;      // Use the production kernels even with Arithmetic::kFast.
};

// How gate_heads() computes the factor of a head. kSigmoid: 1 / (1 + exp(-x)). kSoftplus: log(1 + exp(x)).
enum class HeadGate : uint8_t { kSigmoid, kSoftplus };

// Whether another operation reads the same input before it is overwritten. With kLast, no other operation does, and the
// contents of the input's memory may be undefined even before the operation runs: a backend may fuse the operation with
// the one that computes its input, and never write that memory.
enum class InputUse : uint8_t { kAgain, kLast };

class Operations {
 public:
  // Sets out[row] to row tokens[row] of `table`, dequantized. `tokens` is in host memory; each token is in [0,
  // table.rows).
  virtual void embed(const Matrix& table, const int32_t* tokens, RowCount rows, float* out) = 0;
  // out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight. May run in place. A null weight means all ones, which
  // models with hyper-connections use.
  virtual void rms_norm(const float* x, const float* weight, float eps, RowCount rows, int64_t dim, float* out) = 0;
  // Applies rms_norm() to each head of each row, in place. x is [n_rows][n_heads][head_dim] with row_stride floats per
  // row. A null weight means all ones.
  virtual void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, RowCount rows, int n_heads,
                              int head_dim) = 0;
  // Applies rms_norm() to each of n_groups groups of `dim` elements per row, in place. Rows are dense, weight is
  // [n_groups][dim].
  virtual void rms_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups, int64_t dim) = 0;
  // out[row] = (x[row] - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the row. A null
  // weight means all ones; a null bias means no bias. May run in place.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float eps, RowCount rows, int64_t dim,
                          float* out) = 0;
  // Applies layer_norm() to each of n_groups groups of `dim` elements per row, in place. Rows are dense, weight is
  // [n_groups][dim].
  virtual void layer_norm_groups(float* x, const float* weight, float eps, RowCount rows, int n_groups,
                                 int64_t dim) = 0;
  // x[row] += bias.
  virtual void add_bias(float* x, const float* bias, RowCount rows, int64_t dim) = 0;
  // Multiplies one input by several matrices of equal `cols`. x is [n_rows][cols], dense. `use` states whether x is
  // read again.
  virtual void matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows,
                      InputUse use = InputUse::kAgain) = 0;
  // Adds LoRA adapters to the results of matmuls: out[row] += B (scale * (A x[row])) for each target and each of its
  // rows. Two targets with the same `out` must not have a row in common. `scratch` is backend memory with room for the
  // sum over all targets of (number of rows) * rank floats.
  virtual void add_adapters(std::span<const AdapterTarget> targets, float* scratch) = 0;
  // Applies RoPE to each head of x, [n_rows][n_heads][head_dim] with row_stride floats per row, at the row's position.
  virtual void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride,
                      int n_heads, int head_dim) = 0;
  // Applies RoPE to q [n_rows][n_heads][head_dim] and k [n_rows][n_kv_heads][head_dim] in place, each row at its
  // absolute position. Then stores k and v into the pages of `layer`. The strides are floats between rows. With n_dims
  // 0, nothing is rotated. If k and v are null, only q is rotated and nothing is stored.
  virtual void rope_and_store(const RopeCall& call) = 0;
  // Computes the attention of each token over positions 0 up to its own. A sliding window limits this range, and
  // Segment::seen_end extends it. Keys and values come from the pages. Query head h uses KV head h / (n_heads /
  // n_kv_heads).
  virtual void attention(const AttentionCall& call) = 0;
  // Computes a batched matmul, which layers with latents (MLA) use. Not every backend supports it (see Requirement). x
  // and out must not overlap.
  virtual void batched_matmul(const BatchedMatmul& products, RowCount rows) = 0;
  // Completes the queries of MLA: to each head's projection into the value space, appends the last dimensions of the
  // head's query, as many as a latent row has after its value. Applies RoPE to these dimensions, and to the same
  // dimensions of `rows` in place, each row at its absolute position. Then stores `rows` into the pages of `layer`.
  // attention() over latents returns results of the value's size.
  virtual void rope_and_store_latents(const LatentsCall& call) = 0;
  // Sparse-attention indexer: sets chosen[row] to the `most` positions, up to the token's own, for which the sum over
  // the heads of weight * max(0, q . key) is largest. The positions are in ascending order. Ties are resolved in the
  // same way as by a bounded heap that receives the positions in order. Tokens with at most `most` positions are
  // skipped. `chosen` contains [n_rows][most] integers of 32 bits.
  virtual void select_positions(const SparseIndexer& index, std::span<const Segment> segments, const KvCache& cache,
                                float* chosen) = 0;
  // Pools blocks of positions into rows, for compressed attention. Never called on a backend that rejects the layer's
  // latents. values and scores are dense, [n_rows][pool.width()]. out is [n_rows][pool.dim], written only in rows whose
  // token completes a block.
  virtual void pool_blocks(const BlockPool& pool, std::span<const Segment> segments, const LayerSlots& state,
                           const float* values, const float* scores, float* out) = 0;
  // Stores in the cache the rows whose token completes a block. Overwrites `rows`.
  virtual void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows,
                            KvCache& cache) = 0;
  // Hyper-connections only: computes the mixing coefficients [n_rows][mix.numbers()] in place.
  virtual void hyper_connection_weights(const HyperConnections& mix, float* numbers, RowCount rows) = 0;
  // out[row] = sum over s of in[s] * streams[row][s]. Rows of `streams` are dense, [n_streams][dim].
  virtual void read_streams(const HyperConnections& mix, const float* numbers, const float* streams, RowCount rows,
                            int64_t dim, float* out) = 0;
  // streams[row][to] = out[to] * x[row] + sum over `from` of between[from][to] * streams[row][from].
  virtual void write_streams(const HyperConnections& mix, const float* numbers, const float* x, RowCount rows,
                             int64_t dim, float* streams) = 0;
  // out[row][i] = activation(gate[row][i]) * up[row][i]. Dense; out may be the same memory as gate.
  virtual void gated(const Gating& gating, const float* gate, const float* up, RowCount rows, int64_t dim,
                     float* out) = 0;
  // Multiplies each head of a row by the factor that `kind` computes from gate[row][head]. x is
  // [n_rows][n_heads][head_dim] and gate [n_rows][n_heads], both dense.
  virtual void gate_heads(HeadGate kind, float* x, const float* gate, RowCount rows, int n_heads, int head_dim) = 0;
  // x[row][i] *= factors[i].
  virtual void scale_columns(float* x, const float* factors, RowCount rows, int64_t dim) = 0;
  // x[row] += (weights[row * weight_stride] + offset) * y[row].
  virtual void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset,
                            RowCount rows, int64_t dim) = 0;
  // Rescales x[row] so that its L2 norm equals that of y[row].
  virtual void rescale_to_norm(float* x, const float* y, RowCount rows, int64_t dim) = 0;
  // Gaussian top-k: x[row][i] = max(x[row][i] - cut, 0), where cut is the row's mean plus `deviations` times its sample
  // standard deviation.
  virtual void gaussian_topk(float* x, float deviations, RowCount rows, int64_t dim) = 0;
  // out[row] = x[row], where rows of x are x_stride floats apart.
  virtual void copy_rows(const float* x, int64_t x_stride, RowCount rows, int64_t dim, float* out) = 0;
  // x[row][i] = activation(x[row][i]).
  virtual void activate(Activation activation, float* x, RowCount rows, int64_t dim) = 0;
  // x[row][i] = xielu(x[row][i]).
  virtual void xielu(const Xielu& params, float* x, RowCount rows, int64_t dim) = 0;
  // x[row][i] *= factor.
  virtual void scale(float* x, RowCount rows, int64_t dim, float factor) = 0;
  // x[row][i] = cap * tanh(x[row][i] / cap).
  virtual void soft_cap(float* x, RowCount rows, int64_t dim, float cap) = 0;
  // x = min(max(x, -limit), limit)
  virtual void clamp(float* x, RowCount rows, int64_t dim, float limit) = 0;
  // x[row] += factor * y[row]. If `gate` (one value per row) is not null, y[row] is also multiplied by
  // sigmoid(gate[row]).
  virtual void add_rows(float* x, const float* y, float factor, const float* gate, RowCount rows, int64_t dim) = 0;
  // An MoE layer: out[row] = (add_to_out ? out[row] : 0) + sum over the token's experts e, in order of preference, of
  // weight_e * down_e (activation(gate_e x[row]) * up_e x[row]). The router selects by router_logits[row][n_experts]
  // and prefers the lower index among equals. Requires scratch memory from reserve(). x, router_logits and out are
  // dense, and out is not x.
  virtual void mixture(const Mixture& mixture, const float* router_logits, const float* x, RowCount rows, float* out,
                       bool add_to_out) = 0;
  // Convolves rows of x, `stride` floats apart, in place, and updates the recurrent state (recurrence.h).
  virtual void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state,
                        float* x, int64_t stride) = 0;
  // Applies the delta rule to the rows and updates the recurrent state. out is dense, [n_value_heads][value_dim] per
  // row, and must not be one of the inputs.
  virtual void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                          const DeltaInputs& inputs, float* out) = 0;
  // Applies the state-space recurrence to the rows and updates the recurrent state. out is dense, [n_heads][head_dim]
  // per row, and must not be one of the inputs.
  virtual void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                           const StateSpaceInputs& inputs, float* out) = 0;
  // Token shift (ShiftedInput): difference[row] = x of the previous token (0 before the first one) - x[row]. The state
  // is the last token's x, [dim]. Rows are dense. difference is not x.
  virtual void difference_from_previous(std::span<const Segment> segments, const LayerSlots& state, const float* x,
                                        int64_t dim, float* difference) = 0;
  virtual void shifted_inputs(std::span<const ShiftedInput> inputs, const float* x, const float* difference,
                              RowCount rows, int64_t dim) = 0;
  // Applies the time mixing of RWKV to the rows and updates the recurrent state. out is dense, [width()] per row, and
  // may be r.
  virtual void time_mix(const TimeMix& mix, std::span<const Segment> segments, const LayerSlots& state,
                        const TimeMixInputs& inputs, float* out) = 0;
  // out[i] = x[rows[i]]. `rows` is host memory.
  virtual void gather_rows(const float* x, std::span<const int32_t> rows, int64_t dim, float* out) = 0;

  // Copies one page of all layers (copy-on-write for forked sequences).
  virtual void copy_page(KvCache& cache, int32_t from, int32_t to) = 0;
  // Copy one page of all layers from and to a host buffer of KvCache::page_bytes bytes. The layout of the buffer
  // depends only on the backend and on the cache shape, but not on the number of pages. read_page() waits for the
  // operations that were submitted before it.
  virtual void read_page(const KvCache& cache, int32_t page, std::byte* host_to) = 0;
  virtual void write_page(KvCache& cache, int32_t page, const std::byte* host_from) = 0;

 protected:
  ~Operations() = default;
};

}  // namespace monolith
