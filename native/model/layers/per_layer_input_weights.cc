#include "model/layers/per_layer_input_weights.h"

#include "model/weight_list.h"

namespace monolith {

void list_weights(PerLayerTables& weights, WeightList& list) {
  const HyperParams& p = list.params();
  if (p.per_layer.dim == 0) return;
  const int64_t all = int64_t{p.n_layers} * p.per_layer.dim;
  list.matrix("per_layer_token_embd.weight", p.n_vocab, all, weights.embedding);
  list.matrix("per_layer_model_proj.weight", all, p.n_embd, weights.projection);
  list.vector("per_layer_proj_norm.weight", p.per_layer.dim, weights.norm);
}

void list_weights(PerLayerInputWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  if (p.per_layer.dim == 0) return;
  list.matrix("inp_gate.weight", p.per_layer.dim, p.n_embd, weights.gate);
  list.matrix("proj.weight", p.n_embd, p.per_layer.dim, weights.projection);
  list.norm("post_norm.weight", p.n_embd, weights.post_norm);
}

}  // namespace monolith
