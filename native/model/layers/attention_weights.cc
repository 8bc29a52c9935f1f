#include "model/layers/attention_weights.h"

#include "model/layers/activations.h"
#include "model/weight_list.h"

namespace monolith {

void list_weights(const LayerParams& layer, AttentionWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t q = q_dim(layer), k = k_dim(layer), v = v_dim(layer);
  // Attention in parallel with a state-space model reads the norm of that block.
  if (p.pre_norm && !layer.has_state_space()) list.norm("attn_norm.weight", p.n_embd, weights.norm);
  if (layer.fused_qkv) {
    const int64_t all = q + k + v;
    list.part("attn_qkv.weight", 0, q, all, p.n_embd, weights.q);
    list.part("attn_qkv.weight", q, k, all, p.n_embd, weights.k);
    list.part("attn_qkv.weight", q + k, v, all, p.n_embd, weights.v);
    if (p.qkv_bias) {
      list.part("attn_qkv.bias", 0, q, all, weights.q_bias);
      list.part("attn_qkv.bias", q, k, all, weights.k_bias);
      list.part("attn_qkv.bias", q + k, v, all, weights.v_bias);
    }
  } else {
    if (layer.output_gate) {
      // For each head, the query rows precede the gate rows.
      const int64_t of_query = layer.key_dim, of_both = of_query + layer.value_dim;
      list.part_runs("attn_q.weight", layer.n_heads, 0, of_query, of_both, p.n_embd, weights.q);
      list.part_runs("attn_q.weight", layer.n_heads, of_query, layer.value_dim, of_both, p.n_embd, weights.gate);
    } else {
      list.matrix("attn_q.weight", q, p.n_embd, weights.q);
    }
    list.vector_if(p.qkv_bias, "attn_q.bias", q, weights.q_bias);
    if (layer.kv_of < 0) {
      list.matrix("attn_k.weight", k, p.n_embd, weights.k);
      list.vector_if(p.qkv_bias, "attn_k.bias", k, weights.k_bias);
      if (!layer.value_is_key) {
        list.matrix("attn_v.weight", v, p.n_embd, weights.v);
        list.vector_if(p.qkv_bias, "attn_v.bias", v, weights.v_bias);
      }
    }
  }
  if (p.qk_norm != QkNorm::kNone && p.qk_norm != QkNorm::kUnweightedRotated) {
    const auto norm = [&](const char* name, int64_t n_heads, const float*& to) {
      if (p.qk_norm == QkNorm::kEachHeadApart) return list.vector_of_shape(name, {layer.key_dim, n_heads, 1}, to);
      list.vector(name, layer.key_dim * (p.qk_norm == QkNorm::kWholeRow ? n_heads : 1), to);
    };
    norm("attn_q_norm.weight", layer.n_heads, weights.q_norm);
    if (layer.kv_of < 0) norm("attn_k_norm.weight", layer.n_kv_heads, weights.k_norm);
  }
  if (p.head_gates) list.matrix("attn_gate.weight", layer.n_heads, p.n_embd, weights.head_gates);
  list.matrix("attn_output.weight", p.n_embd, attended_dim(layer), weights.output);
  list.vector_if(p.attention_bias, "attn_output.bias", p.n_embd, weights.output_bias);
  list.vector_if(layer.sinks, "attn_sinks.weight", layer.n_heads, weights.sinks);
  if (p.post_norm) list.norm("post_attention_norm.weight", p.n_embd, weights.post_norm);
}

}  // namespace monolith
