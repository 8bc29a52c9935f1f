// Tests models with multi-head latent attention (MLA) in their published form: DeepSeek V2, V3 and V3.2, GLM 4.7 Flash
// and 5, Mistral 4 and Kimi Linear. The names come from transformers' modeling_deepseek_v3.py,
// modeling_glm4_moe_lite.py, modeling_glm_moe_dsa.py and modeling_mistral4.py and from Kimi-Linear's modeling_kimi.py.
// The settings come from the config.json of DeepSeek-V2-Lite, DeepSeek-V3, DeepSeek-V3.2, GLM-4.7-Flash, GLM-5,
// Mistral-Small-4 and Kimi-Linear-48B-A3B. RoPE rotates adjacent pairs, as in GGUF, so no rows are permuted.
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

const TensorNames kLatents = kDecoder + TensorNames{{"attn_q_a.weight", "self_attn.q_a_proj.weight"},
                                                    {"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
                                                    {"attn_q_b.weight", "self_attn.q_b_proj.weight"},
                                                    {"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
                                                    {"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"},
                                                    {"kv_b.weight", "self_attn.kv_b_proj.weight"},
                                                    {"indexer.attn_q_b.weight", "self_attn.indexer.wq_b.weight"},
                                                    {"indexer.attn_k.weight", "self_attn.indexer.wk.weight"},
                                                    {"indexer.k_norm.weight", "self_attn.indexer.k_norm.weight"},
                                                    {"indexer.k_norm.bias", "self_attn.indexer.k_norm.bias"},
                                                    {"indexer.proj.weight", "self_attn.indexer.weights_proj.weight"}};
const TensorNames kKimi =
    kLatents + TensorNames{{"ssm_conv1d_q.weight", "self_attn.q_conv1d.weight"},
                           {"ssm_conv1d_k.weight", "self_attn.k_conv1d.weight"},
                           {"ssm_conv1d_v.weight", "self_attn.v_conv1d.weight"},
                           {"ssm_f_a.weight", "self_attn.f_a_proj.weight"},
                           {"ssm_f_b.weight", "self_attn.f_b_proj.weight"},
                           {"ssm_g_a.weight", "self_attn.g_a_proj.weight"},
                           {"ssm_g_b.weight", "self_attn.g_b_proj.weight"},
                           {"ssm_beta.weight", "self_attn.b_proj.weight"},
                           {"ssm_norm.weight", "self_attn.o_norm.weight"},
                           {"ssm_dt.bias", "self_attn.dt_bias"},
                           {"ssm_a", "self_attn.A_log"},
                           {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
                           {"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias"},
                           {"ffn_gate_exps.weight", "block_sparse_moe.experts.{}.w1.weight"},
                           {"ffn_up_exps.weight", "block_sparse_moe.experts.{}.w3.weight"},
                           {"ffn_down_exps.weight", "block_sparse_moe.experts.{}.w2.weight"},
                           {"ffn_gate_shexp.weight", "block_sparse_moe.shared_experts.gate_proj.weight"},
                           {"ffn_up_shexp.weight", "block_sparse_moe.shared_experts.up_proj.weight"},
                           {"ffn_down_shexp.weight", "block_sparse_moe.shared_experts.down_proj.weight"}};
const TensorNames kFused = {{"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
                            {"ffn_down_exps.weight", "mlp.experts.down_proj"}};

// For each head, the rows of kv_b_proj that compute the part of the key without RoPE come first, followed by those that
// compute the value: view(heads, nope + v, rank).
void publish(Weights& weights) {
  take_each(weights, "attn_k_b.weight", [&](const std::string& block, const FloatTensor& keys) {
    const FloatTensor values = weights.at(block + "attn_v_b.weight");
    const int64_t heads = keys.shape[0], rank = keys.shape[1], own = keys.shape[2], value = values.shape[1];
    FloatTensor both{{heads * (own + value), rank}, {}};
    for (int64_t head = 0; head < heads; ++head) {
      FloatTensor of_head = rows_between(keys, head, 1);
      of_head.shape = {rank, own};
      transpose(of_head);
      both.values.insert(both.values.end(), of_head.values.begin(), of_head.values.end());
      const FloatTensor made = rows_between(values, head, 1);
      both.values.insert(both.values.end(), made.values.begin(), made.values.end());
    }
    weights[block + "kv_b.weight"] = std::move(both);
    weights.erase(block + "attn_v_b.weight");
  });
}

void publish_fused(Weights& weights) {
  publish(weights);
  fuse_experts(weights);
}

void publish_kimi(Weights& weights) {
  publish(weights);
  each(weights, "ssm_a", [](FloatTensor& tensor) {
    as_log_of_decay(tensor);
    tensor.shape = {1, 1, static_cast<int64_t>(tensor.values.size()), 1};
  });
}

std::string latents(int rank, int turning, int own, int value, int q_rank) {
  const auto number = [](const char* name, int n) {
    return std::string("\"") + name + "\":" + std::to_string(n) + ",";
  };
  return number("kv_lora_rank", rank) + number("qk_rope_head_dim", turning) + number("qk_nope_head_dim", own) +
         number("v_head_dim", value) + (q_rank > 0 ? number("q_lora_rank", q_rank) : "\"q_lora_rank\":null,") +
         R"("hidden_act":"silu","attention_bias":false,"max_position_embeddings":8192,"rms_norm_eps":1e-06,)"
         R"("tie_word_embeddings":false,)";
}

std::vector<FamilyFolder> folders() {
  return {
      {"deepseek2-lite.q4_0", "DeepseekV2ForCausalLM",
       latents(32, 16, 32, 32, 0) +
           R"("hidden_size":64,"num_hidden_layers":27,"intermediate_size":64,"num_attention_heads":2,"num_key_value_heads":2,)"
           R"("first_k_dense_replace":1,"moe_layer_freq":1,"n_routed_experts":3,"n_shared_experts":2,"num_experts_per_tok":2,)"
           R"("moe_intermediate_size":32,"n_group":1,"topk_group":1,"topk_method":"greedy","scoring_func":"softmax",)"
           R"("norm_topk_prob":false,"routed_scaling_factor":1.0,"rope_theta":10000,"rope_scaling":{"type":"yarn","factor":4,)"
           R"("original_max_position_embeddings":64,"beta_fast":32,"beta_slow":1,"mscale":0.707,"mscale_all_dim":0.707})",
       kLatents, publish},
      {"deepseek2-v3.q8_0", "DeepseekV3ForCausalLM",
       latents(64, 16, 32, 32, 64) +
           R"("hidden_size":128,"num_hidden_layers":3,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":4,)"
           R"("first_k_dense_replace":1,"moe_layer_freq":1,"n_routed_experts":12,"n_shared_experts":1,"num_experts_per_tok":4,)"
           R"("moe_intermediate_size":32,"n_group":4,"topk_group":2,"topk_method":"noaux_tc","scoring_func":"sigmoid",)"
           R"("norm_topk_prob":true,"routed_scaling_factor":2.5,"num_nextn_predict_layers":1,"rope_theta":10000,)"
           R"("rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":128,"beta_fast":32,"beta_slow":1,)"
           R"("mscale":1.0,"mscale_all_dim":1.0})",
       kLatents, publish},
      {"deepseek2-glm47flash.q8_0", "Glm4MoeLiteForCausalLM",
       latents(64, 32, 64, 64, 96) +
           R"("hidden_size":128,"num_hidden_layers":2,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":4,)"
           R"("first_k_dense_replace":1,"n_routed_experts":6,"n_shared_experts":1,"num_experts_per_tok":4,"head_dim":32,)"
           R"("moe_intermediate_size":32,"n_group":1,"topk_group":1,"topk_method":"noaux_tc","norm_topk_prob":true,)"
           R"("routed_scaling_factor":1.8,"num_nextn_predict_layers":1,"rope_scaling":null,"rope_interleave":true,)"
           R"("partial_rotary_factor":1.0,"rope_theta":1000000)",
       kLatents, publish},
      {"mistral4.q8_0", "Mistral3ForConditionalGeneration",
       R"("vision_config":{"hidden_size":8},"text_config":{"model_type":"mistral4",)" + latents(64, 32, 32, 64, 96) +
           R"("hidden_size":128,"num_hidden_layers":2,"intermediate_size":128,"num_attention_heads":4,"num_key_value_heads":4,)"
           R"("first_k_dense_replace":0,"n_routed_experts":6,"n_shared_experts":1,"num_experts_per_tok":2,"head_dim":64,)"
           R"("moe_intermediate_size":32,"n_group":1,"topk_group":1,"norm_topk_prob":true,"routed_scaling_factor":1.0,)"
           R"("rope_interleave":true,"rope_parameters":{"type":"yarn","rope_type":"yarn","rope_theta":10000,"factor":4,)"
           R"("original_max_position_embeddings":64,"max_position_embeddings":8192,"beta_fast":32,"beta_slow":1,"mscale":1,)"
           R"("mscale_all_dim":1,"llama_4_scaling_beta":0.1,"partial_rotary_factor":0.5}})",
       below_language_model(kLatents + kFused), publish_fused, [](Weights&) {}, "model.language_model.layers."},
      {"deepseek32.q8_0", "DeepseekV32ForCausalLM",
       latents(64, 32, 32, 32, 64) +
           R"("hidden_size":128,"num_hidden_layers":3,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":4,)"
           R"("index_n_heads":4,"index_head_dim":64,"index_topk":32,"first_k_dense_replace":1,"n_routed_experts":6,)"
           R"("n_shared_experts":1,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_group":1,"topk_group":1,)"
           R"("topk_method":"noaux_tc","scoring_func":"sigmoid","norm_topk_prob":true,"routed_scaling_factor":2.5,)"
           R"("rope_theta":10000,"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":128,"beta_fast":32,)"
           R"("beta_slow":1,"mscale":1.0,"mscale_all_dim":1.0})",
       kLatents, publish},
      {"glm-dsa.q8_0", "GlmMoeDsaForCausalLM",
       latents(64, 32, 32, 32, 64) +
           R"("hidden_size":128,"num_hidden_layers":3,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":4,)"
           R"("index_n_heads":4,"index_head_dim":64,"index_topk":32,"mlp_layer_types":["dense","sparse","sparse"],"head_dim":32,)"
           R"("n_routed_experts":6,"n_shared_experts":1,"num_experts_per_tok":2,"moe_intermediate_size":32,"n_group":1,)"
           R"("topk_group":1,"scoring_func":"sigmoid","norm_topk_prob":true,"routed_scaling_factor":2.5,)"
           R"("rope_parameters":{"rope_theta":10000,"rope_type":"default"},"rope_interleave":true)",
       kLatents, publish},
      {"kimi-linear.q8_0", "KimiLinearForCausalLM",
       latents(64, 16, 32, 32, 0) +
           R"("hidden_size":128,"num_hidden_layers":3,"intermediate_size":128,"num_attention_heads":4,"num_key_value_heads":4,)"
           R"("linear_attn_config":{"full_attn_layers":[3],"kda_layers":[1,2],"head_dim":32,"num_heads":4,)"
           R"("short_conv_kernel_size":4},"first_k_dense_replace":1,"moe_layer_freq":1,"num_experts":6,"num_experts_per_token":2,)"
           R"("num_shared_experts":1,"moe_intermediate_size":32,"moe_renormalize":true,"moe_router_activation_func":"sigmoid",)"
           R"("num_expert_group":1,"topk_group":1,"routed_scaling_factor":2.446,"mla_use_nope":true,"rope_theta":10000.0,)"
           R"("rope_scaling":null)",
       kKimi, publish_kimi, [](Weights& weights) { each(weights, "ssm_a", as_rounded_decay); }},
  };
}

}  // namespace

TEST(folders_of_mla_match_their_gguf_files) {
  for (const FamilyFolder& one : folders()) check_folder(one);
}

// The text model of Kimi-VL, with the prefix that its tensor names have in a model with a vision encoder.
TEST(folders_of_kimi_vl_match_those_of_their_text_model) {
  for (FamilyFolder one : folders()) {
    if (const std::string name = one.name; name != "DeepseekV3ForCausalLM") continue;
    one.name = "KimiVLForConditionalGeneration";
    one.layers = "language_model." + one.layers;
    for (auto& [gguf, name] : one.names)
      if (name.starts_with("model.") || name.starts_with("lm_head.")) name = "language_model." + name;
    check_folder(one);
  }
}

TEST(folders_of_mla_load_their_mtp_layer) {
  for (const FamilyFolder& one : folders())
    if (const std::string name = one.name; name == "DeepseekV3ForCausalLM" || name == "Glm4MoeLiteForCausalLM" ||
                                           name == "DeepseekV32ForCausalLM" || name == "GlmMoeDsaForCausalLM")
      check_mtp_layers({one, R"("num_nextn_predict_layers":1)"});
}

TEST(damaged_folders_of_mla_never_crash) {
  for (const FamilyFolder& one : folders()) damage_folder(one, 25);
}

}  // namespace monolith
