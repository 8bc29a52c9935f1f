#include "model/layers/block_attention_weights.h"

#include <string>

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
