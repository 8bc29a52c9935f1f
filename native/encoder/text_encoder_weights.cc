#include "encoder/text_encoder_weights.h"

#include <string>

#include "model/weight_list.h"

namespace monolith {
namespace {

void list_attention(const TextEncoderParams& p, TextEncoderLayer& layer, WeightList& list) {
  const int64_t n_embd = p.base.n_embd, all = p.q_dim() + 2 * p.kv_dim();
  struct Part {
    std::string_view name;
    int64_t first, rows;
    std::unique_ptr<Matrix>& weight;
    const float*& bias;
  };
  for (Part& part : std::to_array<Part>({{"attn_q", 0, p.q_dim(), layer.q, layer.q_bias},
                                         {"attn_k", p.q_dim(), p.kv_dim(), layer.k, layer.k_bias},
                                         {"attn_v", p.q_dim() + p.kv_dim(), p.kv_dim(), layer.v, layer.v_bias}})) {
    const std::string name(p.fused_qkv ? "attn_qkv" : part.name);
    if (p.fused_qkv)
      list.part(name + ".weight", part.first, part.rows, all, n_embd, part.weight);
    else
      list.matrix(name + ".weight", part.rows, n_embd, part.weight);
    if (!p.base.qkv_bias) continue;
    if (p.fused_qkv)
      list.part(name + ".bias", part.first, part.rows, all, part.bias);
    else
      list.vector(name + ".bias", part.rows, part.bias);
  }
  const std::string out(p.attention_output_name);
  list.matrix(out + ".weight", n_embd, p.q_dim(), layer.out);
  list.vector_if(p.base.attention_bias, out + ".bias", n_embd, layer.out_bias);
  if (p.qk_norm == EncoderQkNorm::kNone) return;
  const bool heads = p.qk_norm == EncoderQkNorm::kEachHead;
  list.norm("attn_q_norm.weight", heads ? p.head_dim : p.q_dim(), layer.q_norm);
  list.norm("attn_k_norm.weight", heads ? p.head_dim : p.kv_dim(), layer.k_norm);
}

void list_network(const TextEncoderParams& p, bool mixture, TextEncoderLayer& layer, WeightList& list) {
  const int64_t n_embd = p.base.n_embd, n_ff = p.n_ff;
  if (mixture) {
    const int count = p.base.experts.count;
    list.matrix("ffn_gate_inp.weight", count, n_embd, layer.router);
    list.matrices("ffn_up_exps.weight", count, n_ff, n_embd, layer.expert_up);
    list.matrices("ffn_down_exps.weight", count, n_embd, n_ff, layer.expert_down);
    return;
  }
  if (p.network == EncoderNetwork::kFusedGated) {
    list.part("ffn_up.weight", 0, n_ff, 2 * n_ff, n_embd, layer.gate);
    list.part("ffn_up.weight", n_ff, n_ff, 2 * n_ff, n_embd, layer.up);
    if (p.base.up_bias) {
      list.part("ffn_up.bias", 0, n_ff, 2 * n_ff, layer.gate_bias);
      list.part("ffn_up.bias", n_ff, n_ff, 2 * n_ff, layer.up_bias);
    }
  } else {
    if (p.network == EncoderNetwork::kGated) {
      list.matrix("ffn_gate.weight", n_ff, n_embd, layer.gate);
      list.vector_if(p.base.gate_bias, "ffn_gate.bias", n_ff, layer.gate_bias);
    }
    list.matrix("ffn_up.weight", n_ff, n_embd, layer.up);
    list.vector_if(p.base.up_bias, "ffn_up.bias", n_ff, layer.up_bias);
  }
  list.matrix("ffn_down.weight", n_embd, n_ff, layer.down);
  list.vector_if(p.base.down_bias, "ffn_down.bias", n_embd, layer.down_bias);
}

std::vector<WeightSlot> list_encoder(const TextEncoderParams& p, TextEncoderWeights& weights) {
  const HyperParams& base = p.base;
  WeightList list(base);
  list.matrix("token_embd.weight", base.n_vocab, base.n_embd, weights.embedding);
  if (base.n_positions > 0) list.matrix("position_embd.weight", base.n_positions, base.n_embd, weights.positions);
  if (p.n_token_types > 0) list.matrix("token_types.weight", p.n_token_types, base.n_embd, weights.token_types);
  if (base.embedding_norm) list.norm("token_embd_norm.weight", base.n_embd, weights.embedding_norm);
  weights.layers.resize(p.layers.size());
  for (size_t i = 0; i < p.layers.size(); ++i) {
    TextEncoderLayer& layer = weights.layers[i];
    list.enter(static_cast<int>(i), p.layer_prefix);
    list_attention(p, layer, list);
    list_network(p, p.layers[i].mixture, layer, list);
    if (p.layers[i].first_norm)
      list.norm(p.pre_norms ? "attn_norm.weight" : "attn_output_norm.weight", base.n_embd, layer.attention_norm);
    if (p.layers[i].second_norm) list.norm("attn_norm_2.weight", base.n_embd, layer.second_norm);
    list.norm(p.pre_norms ? "ffn_norm.weight" : "layer_output_norm.weight", base.n_embd, layer.ffn_norm);
    if (p.branch_norms) {
      list.norm("post_attention_norm.weight", base.n_embd, layer.attention_branch);
      list.norm("post_ffw_norm.weight", base.n_embd, layer.ffn_branch);
    }
    if (p.layers[i].own_bias) list.table("attn_rel_b.weight", p.n_buckets, p.n_heads, layer.buckets);
  }
  list.enter(-1);
  if (!p.final_norm_name.empty()) list.norm(p.final_norm_name, base.n_embd, weights.final_norm);
  return std::move(list).take();
}

}  // namespace

Result<std::vector<WeightSlot>> text_encoder_slots(const GgufFile& file, const TextEncoderParams& params,
                                                   TextEncoderWeights& weights) {
  // An encoder computes no logits, so a file's output matrices are ignored.
  return check_slots(file, list_encoder(params, weights), params.base, [](std::string_view name) {
    return PoolingHead::uses(name) || name == "output.weight" || name == "output.bias";
  });
}

std::vector<WantedTensor> wanted_encoder_tensors(const TextEncoderParams& params) {
  TextEncoderWeights none;
  return wanted_tensors(list_encoder(params, none));
}

}  // namespace monolith
