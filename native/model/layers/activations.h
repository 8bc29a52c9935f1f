// What the layers of a model share while a step passes them: buffers of the backend's memory, taken at load.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/loading.h"
#include "model/model.h"

namespace monolith {

// Rows first. Null where the network has no use for it.
struct Activations {
  float* x = nullptr;  // the residual stream
  float* normed = nullptr;
  float* q = nullptr;
  float* k = nullptr;
  float* v = nullptr;
  float* attended = nullptr;
  float* mixer_gate = nullptr;  // of what attention or a delta net gives
  float* decay = nullptr;       // of a delta net, as the following four
  float* beta = nullptr;
  float* low_decay = nullptr;
  float* low_gate = nullptr;
  float* branch = nullptr;  // what a part of a layer adds, unless it adds directly
  float* gate = nullptr;
  float* up = nullptr;
  float* router = nullptr;     // [rows][n_experts]
  float* expert_in = nullptr;  // of ExpertParams::latent: [rows][latent], and what experts make of it
  float* expert_out = nullptr;
  float* shared = nullptr;       // result of a gated network beside the experts
  float* shared_gate = nullptr;  // [rows]
  float* low_q = nullptr;        // of latent attention: [rows][q_rank]
  float* head_q = nullptr;       // queries before they are taken to the latents, [rows][n_heads][key_dim]
  float* head_values = nullptr;  // what is attended to, taken out of them, [rows][n_heads][value_dim]
  float* index_q = nullptr;      // [rows][heads of the index][key_dim]
  float* index_k = nullptr;
  float* index_weights = nullptr;
  float* block_values = nullptr;  // of block attention: [rows][BlockPool::width()], and of its index
  float* block_scores = nullptr;
  float* index_values = nullptr;
  float* index_scores = nullptr;
  float* block_rows = nullptr;  // what stands for the blocks that end in a step
  float* chosen = nullptr;      // [rows][most], numbers of 32 bits; for the layers that follow too
  float* last_chosen = nullptr;
  float* last_q = nullptr;  // the last layer's rows with logits, gathered
  float* last_x = nullptr;
  float* last_gate = nullptr;
  float* last_normed = nullptr;
  float* head_gates = nullptr;  // [rows][n_heads] of Attention, and gathered like q
  float* last_head_gates = nullptr;
  float* per_layer = nullptr;  // [rows][n_layers * dim], see PerLayerInputs; and gathered
  float* last_per_layer = nullptr;
  float* per_layer_inner = nullptr;  // [rows][dim] twice: the gate, and this layer's input
  // [count][rows][n_embd], see StreamParams; or [rows][count][n_embd], see StreamMixParams
  float* streams = nullptr;
  float* predicted = nullptr;       // likewise
  float* mixing = nullptr;          // [rows][count * count] coefficients, and before them [rows][count]
  float* stream_numbers = nullptr;  // of StreamMixParams, [rows][numbers]; and gathered, as the streams
  float* last_streams = nullptr;
  float* last_stream_numbers = nullptr;
  float* laurel = nullptr;        // [rows][n_embd]
  float* laurel_inner = nullptr;  // [rows][rank]
  float* inputs = nullptr;        // [rows][input_width] of rows of embedding spans, where these have further parts
  float* deepstack = nullptr;     // [rows][n_embd]: one of the parts
  float* hidden = nullptr;        // of the layer that guesses, see GuessLayer
  float* guess_inputs = nullptr;  // [rows][2 * n_embd], likewise
  // of an EAGLE-3 head: what it reads of the network, [EagleParams::kSources][rows][n_embd],
  float* sources = nullptr;
  float* joined = nullptr;  // and of some rows side by side
  float* logits = nullptr;
};

// Floats of one of them: so many for each row a step may have, or for each row of logits.
struct ActivationBuffer {
  float* Activations::*place;
  int64_t count;
};
std::vector<ActivationBuffer> activation_buffers(const HyperParams& params, const ModelLimits& limits);

// Rows whose sources an EAGLE-3 head joins at once.
inline constexpr int kJoinedRows = 128;

inline int64_t per_layer_dim(const HyperParams& p) { return int64_t{p.n_layers} * p.per_layer.dim; }
// Values of a row of a layer's queries, keys and values, and of what it attends to. Of latent attention: once queries
// are taken to the latents, rows of these as keys.
inline int64_t q_dim(const LayerParams& layer) { return int64_t{layer.n_heads} * layer.key_dim; }
inline int64_t k_dim(const LayerParams& layer) { return int64_t{layer.n_kv_heads} * layer.key_dim; }
inline int64_t v_dim(const LayerParams& layer) { return int64_t{layer.n_kv_heads} * layer.value_dim; }
inline int64_t attended_dim(const LayerParams& layer) { return int64_t{layer.n_heads} * layer.value_dim; }
inline int64_t latent_heads(const HyperParams& p, const LayerParams& layer, int dim) {
  return p.latents.rank > 0 && layer.latent() ? int64_t{layer.n_heads} * dim : 0;
}
// Values inside the widest feed-forward network that all rows pass; 0: there is none.
int64_t dense_ff(const HyperParams& p);
// Width of the hidden rows that a layer or head that guesses reads.
int64_t guess_dim(const HyperParams& p);
// Values of the longest row any operation takes.
int64_t widest_row(const HyperParams& p);
// Dimensions of the widest head; 1 where no layer attends.
inline int most_head_dim(const HyperParams& p) {
  return std::max({p.most(&LayerParams::key_dim), p.most(&LayerParams::value_dim), p.latents.index.key_dim, 1});
}
MixtureShape mixture_shape(const HyperParams& p);
// Of latent attention's products of each head with a matrix of its own.
HeadProductShape head_product_shape(const HyperParams& p);

}  // namespace monolith
