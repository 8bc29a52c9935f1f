// A backend's operations, which a model calls in order between begin_step() and end_step(). None of them allocates.
#pragma once

#include <cstdint>
#include <span>

#include "backend/kv_cache.h"
#include "backend/matrix.h"
#include "backend/mixture.h"
#include "backend/recurrence.h"

namespace monolith {

enum class RopeStyle : uint8_t { kAdjacentPairs, kHalves };  // Llama GGUF layout; NeoX layout

struct RopeParams {
  RopeStyle style;
  int n_dims;                      // leading dimensions of each head that rotate
  const float* inverse_frequency;  // host, n_dims/2 values: angle = position * inverse_frequency[i]
  float magnitude = 1.0f;          // scales cos and sin (YaRN); 1 otherwise
  // M-RoPE: host, which number of a row's RopePosition each of the n_dims/2 pairs turns by, 0 to 2 in their order; null:
  // all by the first.
  const uint8_t* axes = nullptr;
};

// Queries that will attend to latents: [n_rows][n_heads][to_dim] at `to`, where to_dim is a row of latents. They consist
// of what each head's query becomes in the space of the values, put there before, and of its last dimensions as they are.
struct LatentQueries {
  const float* from;    // [n_rows][n_heads][from_dim]
  int64_t from_stride;  // floats between rows
  int from_dim;
  float* to;
  int64_t to_stride;
  int n_heads;
};

// Products of each head's part of a row with a matrix of its own, out[row][head] = W_head x[row][head]. The matrices lie
// one below the other: head h's begins at row h * (weight->rows / n_heads), a multiple of kExpertRowMultiple, and has
// `rows` rows.
struct HeadProducts {
  const Matrix* weight;
  int n_heads;
  int64_t rows;
  const float* x;
  int64_t x_stride, x_head_stride;  // floats between rows and between heads
  float* out;
  int64_t out_stride, out_head_stride;
};

// How rows choose the positions that they attend to. Of each position `layer` of the cache keeps a row of latents, all of
// it its value: the keys of `n_heads` queries.
struct PositionIndex {
  const float* q;        // [n_rows][n_heads][key_dim], dense
  const float* weights;  // [n_rows][n_heads], dense
  int n_heads;
  int layer;
  int most;       // positions chosen; KvShape::most_chosen
  int block = 1;  // positions that one of the layer's rows stands for: then whole blocks are chosen
};

// How one layer attends.
struct AttentionParams {
  float scale;            // of the scores: usually 1 / sqrt(head_dim)
  int window = 0;         // a row at position p sees p - window + 1 .. p; 0: all positions before it
  bool chunked = false;   // with a window: it sees those from the last multiple of `window` on instead
  float soft_cap = 0.0f;  // scores become soft_cap * tanh(score / soft_cap); 0: none
  // Backend memory: of each query head a score that takes part in the softmax and has no value; null: none.
  const float* sinks = nullptr;
  // Queries at position p are multiplied by 1 + temperature_scale ln(1 + floor((p + temperature_offset) /
  // temperature_length)); 0: they are not.
  float temperature_scale = 0.0f;
  int temperature_length = 1, temperature_offset = 0;
  // Of latents: rows that see more positions than most_chosen attend to those that choose_positions() has left here,
  // [n_rows][most_chosen] numbers of 32 bits; null: all attend to all.
  const float* chosen = nullptr;
  int most_chosen = 0;
  // Of latents: above 0, rows attend to their window and besides to all whole blocks of so many positions up to their
  // own, which `block_layer` of the cache keeps a row of each of; or to those chosen, where there are more.
  int block = 0, block_layer = -1;
};

// Rows that stand for blocks of positions, as they are kept. Those that end a block pass a norm, and their last rope.n_dims
// numbers rotate at the position the block begins at.
struct BlockRows {
  RopeParams rope;
  int block;
  const float* norm;  // backend memory
  float eps;
  int layer;  // of the cache
};

// Several residual streams, between which each part of a network mixes (manifold-constrained hyper-connections,
// arXiv:2512.24880). Of a row's numbers a matrix makes n_streams * (n_streams + 2) more, each scaled and based:
//   in[s] = sigmoid + eps: how much of a stream a part reads
//   out[s] = 2 sigmoid: how much of its result a stream takes
//   between[from][to]: softmax over `to`, + eps, then normalized by turns over `from` and `to` until both sum to one
inline constexpr int kMostStreams = 8;
struct StreamMix {
  int n_streams = 0;
  int iterations = 0;  // the last normalization is over `from`
  float eps = 0;
  bool reads_only = false;       // `in` alone, n_streams numbers
  const float* scale = nullptr;  // backend memory, of in, out and between
  const float* base = nullptr;   // backend memory, of each number

  int64_t numbers() const { return int64_t{n_streams} * (reads_only ? 1 : n_streams + 2); }
};

// The activation of arXiv:2411.13010: positive x^2 + linear x above 0, else negative (expm1(min(x, least)) - x) + linear x.
struct Xielu {
  float positive = 0, negative = 0, linear = 0, least = 0;
};

// One product of a matmul group: out[row * out_stride + r] = (add_to_out ? out : 0) + bias[r] + W x[row].
struct MatmulTarget {
  const Matrix* weight;
  float* out;
  int64_t out_stride;           // floats between rows of `out`
  const float* bias = nullptr;  // backend memory, `rows` floats
  bool add_to_out = false;      // residual connection
};

// Whether an operation's input is read again before it is written anew. If not, its memory may be left as it is or
// undefined, from before the operation on: a backend then need not have written it.
enum class InputUse : uint8_t { kAgain, kLast };

class Operations {
 public:
  // out[row] = row token[row] of `table`, dequantized. `tokens` host, each in [0, table.rows).
  virtual void embed(const Matrix& table, const int32_t* tokens, int n_rows, float* out) = 0;
  // out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight. In place allowed. weight null: all 1, of streams that are mixed.
  virtual void rms_norm(const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out) = 0;
  // The same over each head of each row: x is [n_rows][n_heads][head_dim] with row_stride floats per row. weight null:
  // all 1.
  virtual void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, int n_rows, int n_heads,
                              int head_dim) = 0;
  // rms_norm of each of n_groups pieces of each row, `dim` numbers long, in place; rows dense, weight [n_groups][dim].
  virtual void rms_norm_groups(float* x, const float* weight, float eps, int n_rows, int n_groups, int64_t dim) = 0;
  // out[row] = (x[row] - mean) / sqrt(variance + eps) * weight + bias, both over the row; weight null: all 1; bias null: none. In
  // place allowed.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float eps, int n_rows, int64_t dim,
                          float* out) = 0;
  // x[row] += bias.
  virtual void add_bias(float* x, const float* bias, int n_rows, int64_t dim) = 0;
  // Products of one input with several matrices of equal `cols`. x is [n_rows][cols], dense; `use` is what becomes of it.
  virtual void matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows,
                      InputUse use = InputUse::kAgain) = 0;
  // Rotates each head of x, [n_rows][n_heads][head_dim] with row_stride floats per row, at its row's position.
  virtual void rotate(const RopeParams& rope, std::span<const Segment> segments, float* x, int64_t row_stride,
                      int n_heads, int head_dim) = 0;
  // Rotates q [n_rows][n_heads][head_dim] and k [n_rows][n_kv_heads][head_dim] in place (dense rows given
  // by the strides), each row at its absolute position, then stores k and v into the pages of `layer`. With
  // n_dims 0 nothing rotates. k and v null: queries alone rotate, nothing is stored.
  virtual void rope_and_store(const RopeParams& rope, std::span<const Segment> segments, float* q, int64_t q_stride,
                              int n_heads, float* k, int64_t k_stride, const float* v, int64_t v_stride, int layer,
                              KvCache& cache) = 0;
  // Attention of each row over positions 0 .. its own (or its window, or Segment::seen_end), keys and values from the pages.
  // q [n_rows][n_heads][key_dim], out [n_rows][n_heads][value_dim]. Query head h uses KV head h / (n_heads / n_kv_heads).
  virtual void attention(std::span<const Segment> segments, const float* q, int64_t q_stride, int n_heads, int layer,
                         const KvCache& cache, const AttentionParams& params, float* out, int64_t out_stride) = 0;
  // Of layers that keep latents, which a backend may refuse (Loading::can_keep_states()). x and out must not overlap.
  virtual void matmul_heads(const HeadProducts&, int n_rows) { static_cast<void>(n_rows); }
  // Copies the last dimensions of each head's query behind what it has become in the space of the values, as many as a
  // row of latents has behind its value; rotates these and those of `rows` [n_rows][row_stride] in place, each row at
  // its absolute position; then stores the rows into the pages of `layer`. attention() attends to them with the value's
  // dimensions as its result.
  virtual void rope_and_store_latents(const RopeParams& rope, std::span<const Segment> segments,
                                      const LatentQueries& queries, float* rows, int64_t row_stride, int layer,
                                      KvCache& cache) {
    static_cast<void>(rope), static_cast<void>(segments), static_cast<void>(queries), static_cast<void>(rows);
    static_cast<void>(row_stride), static_cast<void>(layer), static_cast<void>(cache);
  }
  // chosen[row] = the `most` positions up to the row's own with the largest sum over the heads of
  // weight * max(0, q . key), ascending; of equals those that a heap of the best keeps which takes positions in order.
  // Rows that see no more than so many are left out. chosen: [n_rows][most] numbers of 32 bits.
  virtual void choose_positions(const PositionIndex& index, std::span<const Segment> segments, const KvCache& cache,
                                float* chosen) {
    static_cast<void>(index), static_cast<void>(segments), static_cast<void>(cache), static_cast<void>(chosen);
  }
  // Of networks that attend to blocks of positions, which a backend may refuse with their latents. Rows of values and
  // scores, dense, [n_rows][pool.width()]; out[row] is written where a row ends a block, [n_rows][pool.dim].
  virtual void pool_blocks(const BlockPool& pool, std::span<const Segment> segments, const LayerSlots& state,
                           const float* values, const float* scores, float* out) {
    static_cast<void>(pool), static_cast<void>(segments), static_cast<void>(state), static_cast<void>(values);
    static_cast<void>(scores), static_cast<void>(out);
  }
  // Keeps those of `rows` that end a block; they are overwritten.
  virtual void store_blocks(const BlockRows& blocks, std::span<const Segment> segments, float* rows, KvCache& cache) {
    static_cast<void>(blocks), static_cast<void>(segments), static_cast<void>(rows), static_cast<void>(cache);
  }
  // Of networks with several residual streams (Loading::mixes_streams()). Numbers [n_rows][mix.numbers()], in place.
  virtual void weigh_streams(const StreamMix& mix, float* numbers, int n_rows) {
    static_cast<void>(mix), static_cast<void>(numbers), static_cast<void>(n_rows);
  }
  // out[row] = sum over s of in[s] * streams[row][s], rows of streams dense, [n_streams][dim].
  virtual void read_streams(const StreamMix& mix, const float* numbers, const float* streams, int n_rows, int64_t dim,
                            float* out) {
    static_cast<void>(mix), static_cast<void>(numbers), static_cast<void>(streams), static_cast<void>(n_rows);
    static_cast<void>(dim), static_cast<void>(out);
  }
  // streams[row][to] = out[to] * x[row] + sum over `from` of between[from][to] * streams[row][from].
  virtual void write_streams(const StreamMix& mix, const float* numbers, const float* x, int n_rows, int64_t dim,
                             float* streams) {
    static_cast<void>(mix), static_cast<void>(numbers), static_cast<void>(x), static_cast<void>(n_rows);
    static_cast<void>(dim), static_cast<void>(streams);
  }
  // out[row][i] = activation(gate[row][i]) * up[row][i]; dense, out may be gate.
  virtual void gated(const Gating& gating, const float* gate, const float* up, int n_rows, int64_t dim, float* out) = 0;
  // Each head of a row times 1 / (1 + exp(-gate[row][head])). x [n_rows][n_heads][head_dim], dense; gate likewise.
  virtual void gate_heads(float* x, const float* gate, int n_rows, int n_heads, int head_dim) = 0;
  // x[row][i] *= factors[i].
  virtual void scale_columns(float* x, const float* factors, int n_rows, int64_t dim) = 0;
  // x[row] += (weights[row * weight_stride] + offset) * y[row].
  virtual void add_weighted(float* x, const float* y, const float* weights, int64_t weight_stride, float offset,
                            int n_rows, int64_t dim) = 0;
  // x[row] becomes as long a vector as y[row] is.
  virtual void match_length(float* x, const float* y, int n_rows, int64_t dim) = 0;
  // x[row][i] = max(x[row][i] - cut, 0), where the row's cut is its mean and so many of its standard deviations (those of
  // a sample).
  virtual void keep_outliers(float* x, float deviations, int n_rows, int64_t dim) = 0;
  // out[row] = x[row], rows of x being x_stride floats apart.
  virtual void copy_rows(const float* x, int64_t x_stride, int n_rows, int64_t dim, float* out) = 0;
  // x[i] = activation(x[i]).
  virtual void activate(Activation activation, float* x, int64_t count) = 0;
  // x[i] = xielu(x[i]).
  virtual void xielu(const Xielu& params, float* x, int64_t count) = 0;
  // x[i] *= factor.
  virtual void scale(float* x, int64_t count, float factor) = 0;
  // x[i] = cap * tanh(x[i] / cap).
  virtual void soft_cap(float* x, int64_t count, float cap) = 0;
  // x[row] += factor * y[row], and where `gate` is given (one value per row) that times sigmoid(gate[row]).
  virtual void add_rows(float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) = 0;
  // out[row] = (add_to_out ? out[row] : 0) + sum over the experts e chosen for the row, the first choice first, of
  // weight_e * down_e (activation(gate_e x[row]) * up_e x[row]). The router chooses by router_logits[row][n_experts],
  // the lower index first among equals. Must have been reserved for; x, router_logits and out dense, out not x.
  virtual void mixture(const Mixture& mixture, const float* router_logits, const float* x, int n_rows, float* out,
                       bool add_to_out) = 0;
  // Convolves rows of x, `stride` floats apart, in place, and carries the state on (recurrence.h).
  virtual void convolve(const Convolution& convolution, std::span<const Segment> segments, const LayerSlots& state,
                        float* x, int64_t stride) = 0;
  // The delta rule over rows, and the state carried on. out: dense, [n_value_heads][value_dim], none of the inputs.
  virtual void delta_rule(const DeltaRule& rule, std::span<const Segment> segments, const LayerSlots& state,
                          const DeltaInputs& inputs, float* out) = 0;
  // The state space over rows, and the state carried on. out: dense, [n_heads][head_dim], none of the inputs.
  virtual void state_space(const StateSpace& space, std::span<const Segment> segments, const LayerSlots& state,
                           const StateSpaceInputs& inputs, float* out) = 0;
  // out[i] = x[rows[i]]; `rows` host.
  virtual void gather_rows(const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) = 0;

  // Copies one page of all layers (copy on write for forks).
  virtual void copy_page(KvCache& cache, int32_t from, int32_t to) = 0;

 protected:
  ~Operations() = default;
};

}  // namespace monolith
