#include "model/layers/drafter_weights.h"

#include "model/layers/activations.h"
#include "model/weight_list.h"

namespace monolith {

void list_weights(DraftWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  list.vector("nextn.enorm.weight", p.n_embd, weights.token_norm);
  list.vector("nextn.hnorm.weight", p.n_embd, weights.hidden_norm);
  list.matrix("nextn.eh_proj.weight", p.n_embd, 2 * int64_t{p.n_embd}, weights.projection);
  if (p.draft.own_embedding) list.matrix("nextn.embed_tokens.weight", p.n_vocab, p.n_embd, weights.embedding);
  if (p.draft.own_head) list.matrix("nextn.shared_head_head.weight", p.n_vocab, p.n_embd, weights.head);
  if (!p.draft.head_norm_name.empty()) list.norm(p.draft.head_norm_name, p.n_embd, weights.head_norm);
}

void list_weights(const EagleParams& params, EagleWeights& weights, WeightList& list) {
  const LayerParams& layer = params.own.layers[0];
  const int64_t n_embd = params.own.n_embd, vocabulary = params.own.n_vocab;
  list.enter(-1);
  list.matrix("fc.weight", n_embd, params.sources_dim(), weights.fusion);
  if (params.norm_before_fc) list.vector("enc.output_norm.weight", params.sources_dim(), weights.sources_norm);
  if (params.own_embedding) list.matrix("token_embd.weight", params.n_tokens, n_embd, weights.embedding);
  if (params.own_head) list.matrix("output.weight", vocabulary, n_embd, weights.head);
  if (params.chosen_tokens) list.numbers("d2t", vocabulary, 1, static_cast<int32_t>(params.n_tokens), weights.tokens);
  list.norm("output_norm.weight", n_embd, weights.head_norm);
  list.enter(0);
  list.vector("attn_norm.weight", n_embd, weights.token_norm);
  list.vector("attn_norm_2.weight", n_embd, weights.hidden_norm);
  AttentionWeights& attention = weights.layer.attention;
  list.matrix("attn_q.weight", q_dim(layer), 2 * n_embd, attention.q);
  list.matrix("attn_k.weight", k_dim(layer), 2 * n_embd, attention.k);
  list.matrix("attn_v.weight", v_dim(layer), 2 * n_embd, attention.v);
  list.matrix("attn_output.weight", n_embd, attended_dim(layer), attention.output);
  list.norm("ffn_norm.weight", n_embd, weights.layer.ffn_norm);
  list_weights(layer, weights.layer.network, list);
  list.enter(-1);
}

}  // namespace monolith
