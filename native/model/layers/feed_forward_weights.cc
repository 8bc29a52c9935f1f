#include "model/layers/feed_forward_weights.h"

#include "model/weight_list.h"

namespace monolith {

void list_weights(const LayerParams& layer, NetworkWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t n_ff = layer.n_ff;
  const bool gated = layer.feed_forward != FeedForwardKind::kPlain;
  if (gated && p.fused_gate_up) {
    list.part("ffn_up.weight", 0, n_ff, 2 * n_ff, p.n_embd, weights.gate);
    list.part("ffn_up.weight", n_ff, n_ff, 2 * n_ff, p.n_embd, weights.up);
  } else {
    if (gated) list.matrix("ffn_gate.weight", n_ff, p.n_embd, weights.gate);
    list.matrix("ffn_up.weight", n_ff, p.n_embd, weights.up);
    list.vector_if(gated && p.gate_bias, "ffn_gate.bias", n_ff, weights.gate_bias);
    list.vector_if(p.up_bias, "ffn_up.bias", n_ff, weights.up_bias);
  }
  list.matrix("ffn_down.weight", p.n_embd, n_ff, weights.down);
  list.vector_if(p.down_bias, "ffn_down.bias", p.n_embd, weights.down_bias);
  list.vector_if(p.sub_norms, "ffn_sub_norm.weight", n_ff, weights.sub_norm);
}

void list_weights(const LayerParams& layer, ExpertWeights& weights, NetworkWeights& shared, WeightList& list) {
  const HyperParams& p = list.params();
  const ExpertParams& e = p.experts;
  list.matrix("ffn_gate_inp.weight", e.count, p.n_embd, weights.router);
  const int64_t width = e.latent > 0 ? e.latent : p.n_embd;
  if (e.latent > 0) {
    list.matrix("ffn_latent_down.weight", e.latent, p.n_embd, weights.to_latent);
    list.matrix("ffn_latent_up.weight", p.n_embd, e.latent, weights.from_latent);
  }
  if (e.fused_gate_up) {
    list.matrix_runs("ffn_gate_up_exps.weight", e.count, 0, e.n_ff, 2 * e.n_ff, width, weights.all.gate);
    list.matrix_runs("ffn_gate_up_exps.weight", e.count, e.n_ff, e.n_ff, 2 * e.n_ff, width, weights.all.up);
  } else {
    if (!e.gateless) list.matrices("ffn_gate_exps.weight", e.count, e.n_ff, width, weights.all.gate);
    list.matrices("ffn_up_exps.weight", e.count, e.n_ff, width, weights.all.up);
  }
  list.matrices("ffn_down_exps.weight", e.count, width, e.n_ff, weights.all.down);
  if (e.experts_per_chunk > 0) {
    const int64_t chunks = e.count / e.experts_per_chunk;
    list.matrices("ffn_gate_chexps.weight", chunks, e.n_ff_chunk, p.n_embd, weights.chunks.gate);
    list.matrices("ffn_up_chexps.weight", chunks, e.n_ff_chunk, p.n_embd, weights.chunks.up);
    list.matrices("ffn_down_chexps.weight", chunks, p.n_embd, e.n_ff_chunk, weights.chunks.down);
  }
  if (layer.experts_by_token) list.numbers("ffn_gate_tid2eid.weight", e.used, p.n_vocab, e.count, weights.of_token);
  list.vector_if(e.choice_bias && !layer.experts_by_token, e.choice_bias_name, e.count, weights.choice_bias);
  if (e.biases) {
    list.vector("ffn_gate_inp.bias", e.count, weights.router_bias);
    list.vector_of_shape("ffn_gate_exps.bias", {e.n_ff, e.count, 1}, weights.all.gate_bias);
    list.vector_of_shape("ffn_up_exps.bias", {e.n_ff, e.count, 1}, weights.all.up_bias);
    list.vector_of_shape("ffn_down_exps.bias", {p.n_embd, e.count, 1}, weights.all.down_bias);
  }
  if (layer.feed_forward == FeedForwardKind::kGatedAndMixture) {
    list.norm("pre_ffw_norm_2.weight", p.n_embd, weights.norm);
    list.norm("post_ffw_norm_1.weight", p.n_embd, weights.network_post_norm);
    list.norm("post_ffw_norm_2.weight", p.n_embd, weights.post_norm);
    list.vector("ffn_gate_inp.scale", p.n_embd, weights.router_scale);
    list.vector_if(e.scales, "ffn_down_exps.scale", e.count, weights.expert_scales);
    return;
  }
  if (layer.feed_forward == FeedForwardKind::kGatedBesideMixture)
    list.norm("ffn_norm_exps.weight", p.n_embd, weights.norm);
  if (e.n_ff_shared == 0) return;
  if (!e.gateless) list.matrix("ffn_gate_shexp.weight", e.n_ff_shared, p.n_embd, shared.gate);
  list.matrix("ffn_up_shexp.weight", e.n_ff_shared, p.n_embd, shared.up);
  list.matrix("ffn_down_shexp.weight", p.n_embd, e.n_ff_shared, shared.down);
  if (e.shared_gate) list.matrix("ffn_gate_inp_shexp.weight", 1, p.n_embd, weights.shared_gate);
}

}  // namespace monolith
