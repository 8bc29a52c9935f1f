// What the layers of a model share while a step passes them: buffers of the backend's memory, taken at load.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"

namespace monolith {

// Rows first. Null where the network has no use for it.
struct Activations {
  float* x = nullptr;        // the residual stream
  float* normed = nullptr;
  float* q = nullptr;
  float* k = nullptr;
  float* v = nullptr;
  float* attended = nullptr;
  float* branch = nullptr;   // what a part of a layer adds, unless it adds directly
  float* gate = nullptr;
  float* up = nullptr;
  float* router = nullptr;       // [rows][n_experts]
  float* shared = nullptr;       // result of a gated network beside the experts
  float* shared_gate = nullptr;  // [rows]
  float* last_q = nullptr;       // the last layer's rows with logits, gathered
  float* last_x = nullptr;
  float* logits = nullptr;
};

// Floats of one of them: so many for each row a step may have, or for each row of logits.
struct ActivationBuffer {
  float* Activations::*place;
  int64_t count;
};
std::vector<ActivationBuffer> activation_buffers(const HyperParams& params, const ModelLimits& limits);

// Values of a row of a layer's queries, keys and values, and of what it attends to.
inline int64_t q_dim(const HyperParams& p, const LayerParams& layer) { return int64_t{p.n_heads} * layer.key_dim; }
inline int64_t k_dim(const LayerParams& layer) { return int64_t{layer.n_kv_heads} * layer.key_dim; }
inline int64_t v_dim(const LayerParams& layer) { return int64_t{layer.n_kv_heads} * layer.value_dim; }
inline int64_t attended_dim(const HyperParams& p, const LayerParams& layer) { return int64_t{p.n_heads} * layer.value_dim; }
// Values inside the widest feed-forward network that all rows pass; 0: there is none.
int64_t dense_ff(const HyperParams& p);
// Values of the longest row any operation takes.
int64_t widest_row(const HyperParams& p);
MixtureShape mixture_shape(const HyperParams& p);

}  // namespace monolith
