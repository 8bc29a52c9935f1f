// The buffers that a model's layers share during a step. They are allocated in the backend's memory during loading.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/loading.h"
#include "model/model.h"

namespace monolith {

// The first dimension of every buffer is the token index. Buffers that the model does not need are null.
struct Activations {
  float* x = nullptr;  // The residual stream.
  float* normed = nullptr;
  float* final_states = nullptr;  // Hidden states after the final norm; only for models with pooling.
  float* q = nullptr;
  float* k = nullptr;
  float* v = nullptr;
  float* attended = nullptr;
  float* mixer_gate = nullptr;  // Gate for the output of attention or a delta net.
  // The next four buffers are for delta nets. State-space models keep their steps in `beta`, and Mamba keeps the steps
  // before their projection in `low_decay`.
  float* decay = nullptr;
  float* beta = nullptr;
  float* low_decay = nullptr;
  float* low_gate = nullptr;
  float* space_groups = nullptr;  // B and C of Mamba.
  // RWKV: the difference from the previous token's input; the inputs of time mixing, [input][tokens][n_embd]; their
  // projections, kTimeMixInputs of the same size; the v of the first layer; and the gathered input of channel mixing.
  float* difference = nullptr;
  float* shifted = nullptr;
  float* projected = nullptr;
  float* first_v = nullptr;
  float* last_shifted = nullptr;
  // The input of the feed-forward network if HyperParams::parallel_norm is set, or the storage of StepRows::early.
  float* parallel_input = nullptr;
  float* branch = nullptr;  // Output of a block, unless it is added to the residual stream directly.
  float* gate = nullptr;
  float* up = nullptr;
  float* router = nullptr;  // Shape [tokens][n_experts].
  // For ExpertParams::latent, [tokens][latent]: input and output of the experts. For ExpertParams::experts_per_chunk,
  // expert_out is the output of the second mixture, [tokens][n_embd].
  float* expert_in = nullptr;
  float* expert_out = nullptr;
  // Output of the gated shared expert, or of the experts if they run in parallel with a dense network or another
  // mixture reads their output.
  float* shared = nullptr;
  float* shared_gate = nullptr;  // Shape [tokens].
  float* low_q = nullptr;        // Low-rank queries of MLA: [tokens][q_rank].
  float* head_q = nullptr;       // Queries before they are mapped to the latent space: [tokens][n_heads][key_dim].
  // Attention output after it is mapped back from the latent space: [tokens][n_heads][value_dim].
  float* head_values = nullptr;
  float* index_q = nullptr;  // Queries of the sparse-attention indexer: [tokens][indexer heads][key_dim].
  float* index_k = nullptr;
  float* index_weights = nullptr;
  // Input of block pooling, for block attention and its indexer: [tokens][BlockPool::width()].
  float* block_values = nullptr;
  float* block_scores = nullptr;
  float* index_values = nullptr;
  float* index_scores = nullptr;
  float* block_rows = nullptr;  // Pooled vectors of the blocks that end in a step.
  // Positions that the indexer selected: 32-bit integers [tokens][top_k]. They are also read by the layers after it
  // that have no indexer.
  float* chosen = nullptr;
  float* last_chosen = nullptr;
  // The following buffers contain only the rows of tokens whose logits are requested, gathered from the other buffers.
  float* last_q = nullptr;
  float* last_x = nullptr;
  float* last_gate = nullptr;
  float* last_normed = nullptr;
  float* last_early = nullptr;
  float* head_gates = nullptr;  // Head gates of Attention, [tokens][n_heads], and the same gathered like the queries.
  float* last_head_gates = nullptr;
  float* per_layer = nullptr;  // Per-layer inputs (PerLayerInputs), [tokens][n_layers * dim], and the same gathered.
  float* last_per_layer = nullptr;
  float* per_layer_inner = nullptr;  // Twice [tokens][dim]: the gate and the input of the current layer.
  // Residual streams: [count][tokens][n_embd] for StreamParams, or [tokens][count][n_embd] for StreamMixParams.
  float* streams = nullptr;
  float* predicted = nullptr;  // The same shape as `streams`.
  float* mixing = nullptr;     // AltUp coefficients: [tokens][count], followed by [tokens][count * count].
  // Mixing weights of hyper-connections, with shape [tokens][mixing weights per token]. The `last_` buffers contain the
  // gathered streams and mixing weights.
  float* stream_numbers = nullptr;
  float* last_streams = nullptr;
  float* last_stream_numbers = nullptr;
  float* laurel = nullptr;        // Shape [tokens][n_embd].
  float* laurel_inner = nullptr;  // Shape [tokens][rank].
  float* inputs = nullptr;        // Rows of embedding spans, [tokens][input_width], if they have DeepStack parts.
  float* deepstack = nullptr;     // One DeepStack part: [tokens][n_embd].
  float* hidden = nullptr;        // The drafter's hidden states (see MtpLayer).
  float* draft_inputs = nullptr;  // Input of the drafter: [tokens][2 * n_embd].
  // The target model's hidden states that an EAGLE-3 head reads: [EagleParams::kSources][tokens][n_embd].
  float* sources = nullptr;
  float* joined = nullptr;  // The same hidden states for some of the tokens, concatenated per token.
  float* logits = nullptr;
};

// The number of floats in each buffer. Some buffers have one row per token in a step, others one row per token with
// logits.
struct ActivationBuffer {
  float* Activations::*place;
  int64_t count;
};
std::vector<ActivationBuffer> activation_buffers(const HyperParams& params, const ModelLimits& limits);

// Number of inputs in TimeMixInputs without first_v.
inline constexpr int kTimeMixInputs = 7;

// Number of tokens whose hidden states an EAGLE-3 head concatenates at a time.
inline constexpr int kJoinedRows = 128;

inline int64_t per_layer_dim(const HyperParams& p) { return int64_t{p.n_layers} * p.per_layer.dim; }
// The numbers of values per token in a layer's queries, keys, values and attention output. In MLA layers, queries are
// counted after they are mapped to the latent space, and keys are latent vectors.
inline int64_t q_dim(const LayerParams& layer) { return int64_t{layer.n_heads} * layer.key_dim; }
inline int64_t k_dim(const LayerParams& layer) { return int64_t{layer.n_kv_heads} * layer.key_dim; }
inline int64_t v_dim(const LayerParams& layer) { return int64_t{layer.n_kv_heads} * layer.value_dim; }
inline int64_t attended_dim(const LayerParams& layer) { return int64_t{layer.n_heads} * layer.value_dim; }
inline int64_t latent_heads(const HyperParams& p, const LayerParams& layer, int dim) {
  return p.latents.rank > 0 && layer.latent() ? int64_t{layer.n_heads} * dim : 0;
}
// Width of the widest dense feed-forward network or shared expert; 0 if the model has neither.
int64_t dense_ff(const HyperParams& p);
// Width of the hidden states that the MTP layers or the EAGLE-3 head read.
int64_t draft_dim(const HyperParams& p);
// The length, in values, of the longest row that any operation receives.
int64_t widest_row(const HyperParams& p);
// Largest size of an attention head; 1 if no layer has attention.
inline int most_head_dim(const HyperParams& p) {
  return std::max({p.most(&LayerParams::key_dim), p.most(&LayerParams::value_dim), p.latents.index.key_dim, 1});
}
MixtureShape mixture_shape(const HyperParams& p);
// Shape of MLA's batched matmul, with one matrix per head.
HeadProductShape head_product_shape(const HyperParams& p);

}  // namespace monolith
