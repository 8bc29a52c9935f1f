// A backend's operations, which a model calls in order between begin_step() and end_step(). None of them allocates.
#pragma once

#include <cstdint>
#include <span>

#include "backend/kv_cache.h"
#include "backend/matrix.h"
#include "backend/mixture.h"

namespace monolith {

enum class RopeStyle : uint8_t { kAdjacentPairs, kHalves };   // Llama GGUF layout; NeoX layout

struct RopeParams {
  RopeStyle style;
  int n_dims;                      // leading dimensions of each head that rotate
  const float* inverse_frequency;  // host, n_dims/2 values: angle = position * inverse_frequency[i]
  float magnitude = 1.0f;          // scales cos and sin (YaRN); 1 otherwise
};

// How one layer attends.
struct AttentionParams {
  float scale;               // of the scores: usually 1 / sqrt(head_dim)
  int window = 0;            // a row at position p sees p - window + 1 .. p; 0: all positions before it
  float soft_cap = 0.0f;     // scores become soft_cap * tanh(score / soft_cap); 0: none
  // Backend memory: of each query head a score that takes part in the softmax and has no value; null: none.
  const float* sinks = nullptr;
};

// One product of a matmul group: out[row * out_stride + r] = (add_to_out ? out : 0) + bias[r] + W x[row].
struct MatmulTarget {
  const Matrix* weight;
  float* out;
  int64_t out_stride;               // floats between rows of `out`
  const float* bias = nullptr;      // backend memory, `rows` floats
  bool add_to_out = false;          // residual connection
};

// Whether an operation's input is read again before it is written anew. If not, its memory may be left as it is or
// undefined, from before the operation on: a backend then need not have written it.
enum class InputUse : uint8_t { kAgain, kLast };

class Operations {
 public:
  // out[row] = row token[row] of `table`, dequantized. `tokens` host, each in [0, table.rows).
  virtual void embed(const Matrix& table, const int32_t* tokens, int n_rows, float* out) = 0;
  // out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight. In place allowed.
  virtual void rms_norm(const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out) = 0;
  // The same over each head of each row: x is [n_rows][n_heads][head_dim] with row_stride floats per row.
  virtual void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, int n_rows,
                              int n_heads, int head_dim) = 0;
  // Products of one input with several matrices of equal `cols`. x is [n_rows][cols], dense; `use` is what becomes of it.
  virtual void matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows,
                      InputUse use = InputUse::kAgain) = 0;
  // Rotates q [n_rows][n_heads][head_dim] and k [n_rows][n_kv_heads][head_dim] in place (dense rows given
  // by the strides), each row at its absolute position, then stores k and v into the pages of `layer`. With
  // n_dims 0 nothing rotates.
  virtual void rope_and_store(const RopeParams& rope, std::span<const Segment> segments, float* q,
                              int64_t q_stride, int n_heads, float* k, int64_t k_stride, const float* v,
                              int64_t v_stride, int layer, KvCache& cache) = 0;
  // Causal attention of each row over positions 0 .. its own (or its window), keys and values from the pages.
  // q and out: [n_rows][n_heads][head_dim]. Query head h uses KV head h / (n_heads / n_kv_heads).
  virtual void attention(std::span<const Segment> segments, const float* q, int64_t q_stride, int n_heads,
                         int layer, const KvCache& cache, const AttentionParams& params, float* out,
                         int64_t out_stride) = 0;
  // out[row][i] = activation(gate[row][i]) * up[row][i]; dense, out may be gate.
  virtual void gated(Activation activation, const float* gate, const float* up, int n_rows, int64_t dim,
                     float* out) = 0;
  // x[i] *= factor.
  virtual void scale(float* x, int64_t count, float factor) = 0;
  // x[i] = cap * tanh(x[i] / cap).
  virtual void soft_cap(float* x, int64_t count, float cap) = 0;
  // x[row] += factor * y[row], and where `gate` is given (one value per row) that times sigmoid(gate[row]).
  virtual void add_rows(float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) = 0;
  // out[row] = (add_to_out ? out[row] : 0) + sum over the experts e chosen for the row, the first choice first, of
  // weight_e * down_e (activation(gate_e x[row]) * up_e x[row]). The router chooses by router_logits[row][n_experts],
  // the lower index first among equals. Must have been reserved for; x, router_logits and out dense, out not x.
  virtual void mixture(const Mixture& mixture, const float* router_logits, const float* x, int n_rows,
                       float* out, bool add_to_out) = 0;
  // out[i] = x[rows[i]]; `rows` host.
  virtual void gather_rows(const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) = 0;

  // Copies one page of all layers (copy on write for forks).
  virtual void copy_page(KvCache& cache, int32_t from, int32_t to) = 0;

 protected:
  ~Operations() = default;
};

}  // namespace monolith
