#include "model/layers/attention_weights.h"

#include <string>

#include "model/layers/activations.h"
#include "model/weight_list.h"

namespace monolith {
namespace {

void list_pool(const std::string& stem, const BlockPool& pool, BlockPoolWeights& weights, WeightList& list) {
  const int64_t n_embd = list.params().n_embd;
  list.matrix(stem + "_kv.weight", pool.width(), n_embd, weights.values);
  list.matrix(stem + "_gate.weight", pool.width(), n_embd, weights.scores);
  list.table(stem + "_ape.weight", pool.block, pool.width(), weights.bias);
  list.vector(stem + "_norm.weight", pool.dim, weights.norm);
}

}  // namespace

void list_weights(const LayerParams& layer, AttentionWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t q = q_dim(layer), k = k_dim(layer), v = v_dim(layer);
  // If attention runs in parallel with a state-space model, it reads the output of the norm in the state-space block
  // instead.
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
    if (layer.output_gate && !layer.output_gate_apart) {
      // In each head, the query rows come before the gate rows.
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
  if (layer.output_gate_apart) list.matrix("attn_gate.weight", attended_dim(layer), p.n_embd, weights.gate);
  if (p.head_gates) list.matrix("attn_gate.weight", layer.n_heads, p.n_embd, weights.head_gates);
  list.matrix("attn_output.weight", p.n_embd, attended_dim(layer), weights.output);
  list.vector_if(p.attention_bias, "attn_output.bias", p.n_embd, weights.output_bias);
  list.vector_if(layer.sinks, "attn_sinks.weight", layer.n_heads, weights.sinks);
  if (p.sub_norms) list.vector("attn_sub_norm.weight", attended_dim(layer), weights.sub_norm);
  if (p.post_norm) list.norm(p.attention_post_norm_name, p.n_embd, weights.post_norm);
}

void list_weights(const LayerParams& layer, LatentAttentionWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const LatentParams& latents = p.latents;
  const int64_t n_heads = layer.n_heads, q_dim = n_heads * latents.key_dim;
  const int64_t rank = latents.rank, own_dim = latents.key_dim - latents.shared_dim, value_dim = latents.value_dim;
  if (p.pre_norm) list.norm("attn_norm.weight", p.n_embd, weights.norm);
  if (latents.q_rank == 0) {
    list.matrix("attn_q.weight", q_dim, p.n_embd, weights.q);
  } else {
    list.matrix("attn_q_a.weight", latents.q_rank, p.n_embd, weights.q_a);
    list.vector("attn_q_a_norm.weight", latents.q_rank, weights.q_a_norm);
    list.matrix("attn_q_b.weight", q_dim, latents.q_rank, weights.q_b);
  }
  list.matrix("attn_kv_a_mqa.weight", rank + latents.shared_dim, p.n_embd, weights.kv_a);
  list.vector("attn_kv_a_norm.weight", rank, weights.kv_a_norm);
  if (latents.split) {
    list.heads("attn_k_b.weight", {n_heads, rank, 0, rank}, own_dim, weights.k_b);
    list.heads("attn_v_b.weight", {n_heads, value_dim, 0, value_dim}, rank, weights.v_b);
  } else {
    // In the file, the key part of this tensor maps latent vectors to keys. Its transpose maps queries to the latent
    // space.
    const int64_t both = own_dim + value_dim;
    list.unsplit_heads("attn_kv_b.weight", {n_heads, both, 0, own_dim, true}, rank, weights.k_b);
    list.unsplit_heads("attn_kv_b.weight", {n_heads, both, own_dim, value_dim}, rank, weights.v_b);
  }
  list.matrix("attn_output.weight", p.n_embd, n_heads * value_dim, weights.output);
  if (layer.chooses) {
    const IndexParams& index = latents.index;
    list.matrix("indexer.attn_q_b.weight", int64_t{index.n_heads} * index.key_dim, latents.q_rank, weights.index_q);
    list.matrix("indexer.attn_k.weight", index.key_dim, p.n_embd, weights.index_k);
    list.matrix("indexer.proj.weight", index.n_heads, p.n_embd, weights.index_weights);
    list.vector("indexer.k_norm.weight", index.key_dim, weights.index_norm);
    list.vector("indexer.k_norm.bias", index.key_dim, weights.index_norm_bias);
  }
  if (p.post_norm) list.norm("post_attention_norm.weight", p.n_embd, weights.post_norm);
}

void list_weights(const LayerParams& layer, BlockAttentionWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  const int64_t q_rank = p.latents.q_rank, q_dim = int64_t{layer.n_heads} * layer.key_dim;
  const int64_t groups = p.blocks.n_groups, rank = p.blocks.output_rank;
  list.norm("attn_norm.weight", p.n_embd, weights.norm);
  list.matrix("attn_q_a.weight", q_rank, p.n_embd, weights.q_a);
  list.vector("attn_q_a_norm.weight", q_rank, weights.q_a_norm);
  list.matrix("attn_q_b.weight", q_dim, q_rank, weights.q_b);
  list.matrix("attn_kv.weight", layer.key_dim, p.n_embd, weights.kv);
  list.vector("attn_kv_a_norm.weight", layer.key_dim, weights.kv_norm);
  list.vector("attn_sinks.weight", layer.n_heads, weights.sinks);
  list.unsplit_heads("attn_output_a.weight", {groups, rank, 0, rank}, q_dim / groups, weights.output_a);
  list.matrix("attn_output_b.weight", p.n_embd, groups * rank, weights.output_b);
  if (layer.block > 0) list_pool("attn_compressor", layer.pool(layer.key_dim), weights.pool, list);
  if (!layer.chooses) return;
  const IndexParams& index = p.latents.index;
  list.matrix("indexer.attn_q_b.weight", int64_t{index.n_heads} * index.key_dim, q_rank, weights.index_q);
  list.matrix("indexer.proj.weight", index.n_heads, p.n_embd, weights.index_weights);
  list_pool("indexer_compressor", layer.pool(index.key_dim), weights.index_pool, list);
}

}  // namespace monolith
