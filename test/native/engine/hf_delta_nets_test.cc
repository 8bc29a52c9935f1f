// Tests Qwen3-Next and Qwen 3.5 in their published form: with the names and tensor layouts from transformers'
// modeling_qwen3_next.py and modeling_qwen3_5.py, and the settings in the config.json of Qwen3-Next-80B-A3B-Instruct
// and Qwen3.5-27B.
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

constexpr int64_t kKeyHeads = 2, kValueHeads = 4, kDim = 16;  // Dimension of keys and values.

const TensorNames kNet = {{"ssm_a", "linear_attn.A_log"},
                          {"ssm_dt.bias", "linear_attn.dt_bias"},
                          {"ssm_conv1d.weight", "linear_attn.conv1d.weight"},
                          {"ssm_norm.weight", "linear_attn.norm.weight"},
                          {"ssm_out.weight", "linear_attn.out_proj.weight"},
                          {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
                          {"attn_gate.weight", "linear_attn.in_proj_z.weight"},
                          {"ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
                          {"ssm_beta.weight", "linear_attn.in_proj_b.weight"},
                          {"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
                          {"qkvz.weight", "linear_attn.in_proj_qkvz.weight"},
                          {"post_attention_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
                          {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
                          {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
                          {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
                          {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"}};

void round(Weights& weights) {
  each(weights, "ssm_a", as_rounded_decay);
  for (auto& [name, tensor] : weights)
    if (name.ends_with("norm.weight") && !is_named(name, "ssm_norm.weight")) as_rounded_norm(tensor);
}

// Qwen3NextRMSNorm multiplies by 1 + weight, but the gated norm of the delta net multiplies by the weight itself. The
// gate of the shared expert is a matrix with one row.
void publish_common(Weights& weights) {
  each(weights, "ssm_a", as_log_of_decay);
  each(weights, "ssm_conv1d.weight", as_conv1d);
  each(weights, "ffn_gate_inp_shexp.weight", [](FloatTensor& tensor) { tensor.shape.insert(tensor.shape.begin(), 1); });
  for (auto& [name, tensor] : weights)
    if (name.ends_with("norm.weight") && !is_named(name, "ssm_norm.weight")) as_norm_less_one(tensor);
}

// The checkpoint groups value heads by key head: repeat_interleave() assigns consecutive value heads to one key head.
// GGUF interleaves them.
int64_t dealt_row(int64_t row, int64_t width) {
  const int64_t head = row / width, each_key = kValueHeads / kKeyHeads;
  return (head % each_key * kKeyHeads + head / each_key) * width + row % width;
}

void publish_qwen35(Weights& weights) {
  constexpr int64_t kLead = 2 * kKeyHeads * kDim;  // Queries and keys.
  const auto behind_keys = [](int64_t row) { return row < kLead ? row : kLead + dealt_row(row - kLead, kDim); };
  for (const char* name : {"ssm_a", "ssm_dt.bias", "ssm_alpha.weight", "ssm_beta.weight"})
    each(weights, name, [](FloatTensor& tensor) { pick_rows(tensor, [](int64_t row) { return dealt_row(row, 1); }); });
  each(weights, "attn_gate.weight",
       [](FloatTensor& tensor) { pick_rows(tensor, [](int64_t row) { return dealt_row(row, kDim); }); });
  for (const char* name : {"attn_qkv.weight", "ssm_conv1d.weight"})
    each(weights, name, [&](FloatTensor& tensor) { pick_rows(tensor, behind_keys); });
  each(weights, "ssm_out.weight", [](FloatTensor& tensor) {
    transpose(tensor);
    pick_rows(tensor, [](int64_t row) { return dealt_row(row, kDim); });
    transpose(tensor);
  });
  publish_common(weights);
}

void publish_qwen35moe(Weights& weights) {
  publish_qwen35(weights);
  fuse_experts(weights);
}

// fix_query_key_value_ordering(): the rows are grouped by key head, each group with the query, the key, the values and
// their gates.
void publish_qwen3next(Weights& weights) {
  take_each(weights, "attn_qkv.weight", [&](const std::string& block, const FloatTensor& mixed) {
    constexpr int64_t kKeys = kKeyHeads * kDim, kValues = kValueHeads * kDim;
    const FloatTensor q = rows_between(mixed, 0, kKeys), k = rows_between(mixed, kKeys, kKeys);
    const FloatTensor v = rows_between(mixed, 2 * kKeys, kValues);
    weights[block + "qkvz.weight"] = join_rows({&q, &k, &v, &weights.at(block + "attn_gate.weight")}, kKeyHeads);
    weights.erase(block + "attn_gate.weight");
  });
  publish_common(weights);
}

std::string text(const std::string& more) {
  return R"("hidden_size":128,"intermediate_size":64,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,)"
         R"("hidden_act":"silu","max_position_embeddings":8192,"rms_norm_eps":1e-06,"attention_bias":false,)"
         R"("linear_conv_kernel_dim":4,"linear_key_head_dim":16,"linear_value_head_dim":16,"linear_num_key_heads":2,)"
         R"("linear_num_value_heads":4,)" +
         more;
}

const std::string kExperts =
    R"(,"num_experts":5,"num_experts_per_tok":2,"moe_intermediate_size":32,"shared_expert_intermediate_size":32)";
const std::string kRope =
    R"("rope_parameters":{"mrope_interleaved":true,"mrope_section":[2,1,1],"rope_type":"default",)"
    R"("rope_theta":10000000,"partial_rotary_factor":0.25})";

std::vector<FamilyFolder> folders() {
  const TensorNames names = below_language_model(kDecoder) + kNet;
  const std::string layers = "model.language_model.layers.";
  return {
      {"qwen35.f16", "Qwen3_5ForConditionalGeneration",
       R"("tie_word_embeddings":true,"vision_config":{"hidden_size":8},"text_config":{"model_type":"qwen3_5_text",)" +
           text(R"("num_hidden_layers":4,"full_attention_interval":4,"mtp_num_hidden_layers":1,"layer_types":[)"
                R"("linear_attention","linear_attention","linear_attention","full_attention"],)" +
                kRope) +
           "}",
       names, publish_qwen35, round, layers},
      {"qwen35moe.q8_0", "Qwen3_5MoeForConditionalGeneration",
       R"("tie_word_embeddings":false,"text_config":{)" +
           text(R"("num_hidden_layers":3,"layer_types":["linear_attention","linear_attention","full_attention"],)" +
                kRope + kExperts) +
           "}",
       names + TensorNames{{"ffn_down_exps.weight", "mlp.experts.down_proj"}}, publish_qwen35moe, round, layers},
      {"qwen3next.q8_0", "Qwen3NextForCausalLM",
       text(R"("num_hidden_layers":3,"full_attention_interval":3,"decoder_sparse_step":1,"mlp_only_layers":[],)"
            R"("norm_topk_prob":true,"partial_rotary_factor":0.25,"rope_theta":10000000,"rope_scaling":null,)"
            R"("use_sliding_window":false,"tie_word_embeddings":false)" +
            kExperts),
       kDecoder + kNet, publish_qwen3next, round},
  };
}

}  // namespace

TEST(folders_of_delta_nets_match_their_gguf_files) {
  for (const FamilyFolder& one : folders()) check_folder(one);
}

// The config.json of Qwen3-Next does not specify the number of MTP layers.
TEST(folders_of_delta_nets_load_their_mtp_layer) {
  for (const FamilyFolder& one : folders())
    check_mtp_layers(
        {one, std::string(one.file).starts_with("qwen3next") ? "" : R"("mtp_num_hidden_layers":1)", mtp_names});
}

TEST(damaged_folders_of_delta_nets_never_crash) {
  for (const FamilyFolder& one : folders()) damage_folder(one, 25);
}

}  // namespace monolith
