#include "model/layers/latent_attention_weights.h"

#include "model/weight_list.h"

namespace monolith {

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
    // In the file, the key part maps latent vectors to keys. Its transpose maps queries to the latent space.
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

}  // namespace monolith
