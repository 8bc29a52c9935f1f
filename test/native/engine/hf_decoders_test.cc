// Decoders that keep keys and values only, as published: names and orders of transformers' modeling file of each.
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

// modeling_ministral3.py rotates halves.
void publish_mistral3(Weights& weights) {
  as_halves(weights, "attn_q.weight", 4);
  as_halves(weights, "attn_k.weight", 2);
}

// modeling_llama4.py (Llama4TextExperts): experts lie as [in, out], gate and up side by side.
void publish_llama4(Weights& weights) {
  const auto turn = [](const FloatTensor& experts) {
    FloatTensor out{{experts.shape[0], experts.shape[2], experts.shape[1]}, {}};
    for (int64_t i = 0; i < experts.shape[0]; ++i) {
      FloatTensor one = rows_between(experts, i, 1);
      one.shape.erase(one.shape.begin());
      transpose(one);
      out.values.insert(out.values.end(), one.values.begin(), one.values.end());
    }
    return out;
  };
  fuse_experts(weights);
  for (const char* name : {"ffn_gate_up_exps.weight", "ffn_down_exps.weight"})
    each(weights, name, [&](FloatTensor& tensor) { tensor = turn(tensor); });
}

std::string sizes(int layers, int width, int kv_heads = 2) {
  return R"("hidden_size":128,"num_attention_heads":4,"max_position_embeddings":8192,"num_key_value_heads":)" +
         std::to_string(kv_heads) + R"(,"num_hidden_layers":)" + std::to_string(layers) + R"(,"intermediate_size":)" +
         std::to_string(width) + ",";
}

const TensorNames kHunyuan = kDecoder + TensorNames{{"attn_q_norm.weight", "self_attn.query_layernorm.weight"},
                                                    {"attn_k_norm.weight", "self_attn.key_layernorm.weight"},
                                                    {"ffn_gate_inp.weight", "mlp.gate.wg.weight"},
                                                    {"ffn_gate_shexp.weight", "mlp.shared_mlp.gate_proj.weight"},
                                                    {"ffn_up_shexp.weight", "mlp.shared_mlp.up_proj.weight"},
                                                    {"ffn_down_shexp.weight", "mlp.shared_mlp.down_proj.weight"}};
const TensorNames kLlama4 = kDecoder + TensorNames{{"token_embd.weight", "language_model.model.embed_tokens.weight"},
                                                   {"output_norm.weight", "language_model.model.norm.weight"},
                                                   {"output.weight", "language_model.lm_head.weight"},
                                                   {"ffn_gate_inp.weight", "feed_forward.router.weight"},
                                                   {"ffn_gate_up_exps.weight", "feed_forward.experts.gate_up_proj"},
                                                   {"ffn_down_exps.weight", "feed_forward.experts.down_proj"},
                                                   {"ffn_gate_shexp.weight", "feed_forward.shared_expert.gate_proj.weight"},
                                                   {"ffn_up_shexp.weight", "feed_forward.shared_expert.up_proj.weight"},
                                                   {"ffn_down_shexp.weight", "feed_forward.shared_expert.down_proj.weight"}};

std::vector<FamilyFolder> folders() {
  const std::string ministral =
      sizes(3, 64) +
      R"("model_type":"ministral3","head_dim":48,"hidden_act":"silu","rms_norm_eps":1e-05,"sliding_window":null,)"
      R"("rope_parameters":{"type":"yarn","rope_type":"yarn","rope_theta":1000000.0,"factor":16.0,)"
      R"("original_max_position_embeddings":64,"beta_fast":32.0,"beta_slow":1.0,"mscale":1.0,"mscale_all_dim":1.0,)"
      R"("llama_4_scaling_beta":0.1})";
  return {
      // Ministral-3-8B-Instruct-2512, in the older and the newer order of names.
      {"mistral3.f16", "Mistral3ForConditionalGeneration",
       R"("tie_word_embeddings":true,"vision_config":{"hidden_size":8},"text_config":{)" + ministral + "}",
       below_language_model(kDecoder), publish_mistral3, [](Weights&) {}, "model.language_model.layers."},
      {"mistral3.f16", "Ministral3ForCausalLM", R"("tie_word_embeddings":true,)" + ministral, kDecoder, publish_mistral3},
      // MiniMax-M2
      {"minimax-m2.q8_0", "MiniMaxM2ForCausalLM",
       sizes(2, 32) +
           R"("head_dim":48,"rotary_dim":24,"rope_theta":5000000,"hidden_act":"silu","rms_norm_eps":1e-06,)"
           R"("num_local_experts":6,"num_experts_per_tok":2,"scoring_func":"sigmoid","use_routing_bias":true,"use_qk_norm":true,)"
           R"("qk_norm_type":"per_layer","shared_intermediate_size":0,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
                              {"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"},
                              {"ffn_gate_exps.weight", "block_sparse_moe.experts.{}.w1.weight"},
                              {"ffn_up_exps.weight", "block_sparse_moe.experts.{}.w3.weight"},
                              {"ffn_down_exps.weight", "block_sparse_moe.experts.{}.w2.weight"}}},
      // Hunyuan-4B-Instruct, Hunyuan-A13B-Instruct; the stretched base is in folder_test.cc
      {"hunyuan-dense.q8_0", "HunYuanDenseV1ForCausalLM",
       sizes(3, 64) + R"("head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":11158840.0,"use_qk_norm":true,)"
                      R"("num_experts":1,"tie_word_embeddings":true)",
       kHunyuan},
      {"hunyuan-moe.q8_0", "HunYuanMoEV1ForCausalLM",
       sizes(2, 64) + R"("head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":11158840.0,"use_qk_norm":true,)"
                      R"("num_experts":6,"moe_topk":[2,2],"moe_intermediate_size":[64,64],"num_shared_expert":[1,1],)"
                      R"("use_mixed_mlp_moe":true,"tie_word_embeddings":true)",
       kHunyuan},
      // K-EXAONE-236B-A23B
      {"exaone-moe.q8_0", "ExaoneMoEForCausalLM",
       sizes(4, 128) +
           R"("head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":1000000,"sliding_window":64,)"
           R"("sliding_window_pattern":"LLLG","layer_types":["sliding_attention","sliding_attention","sliding_attention",)"
           R"("full_attention"],"first_k_dense_replace":1,"num_experts":6,"num_experts_per_tok":2,"num_shared_experts":1,)"
           R"("moe_intermediate_size":32,"norm_topk_prob":true,"routed_scaling_factor":2.5,"n_group":1,"topk_group":1,)"
           R"("scoring_func":"sigmoid","num_nextn_predict_layers":1,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"exp_probs_b.bias", "mlp.e_score_correction_bias"}}},
      // c4ai-command-r7b-12-2024, c4ai-command-r-v01: they rotate neighbouring pairs
      {"cohere2.q8_0", "Cohere2ForCausalLM",
       sizes(4, 64) +
           R"("head_dim":32,"hidden_act":"silu","layer_norm_eps":1e-05,"rope_theta":50000,"sliding_window":64,"rotary_pct":1.0,)"
           R"("logit_scale":0.25,"layer_types":["sliding_attention","sliding_attention","sliding_attention","full_attention"])",
       kDecoder},
      {"command-r.f16", "CohereForCausalLM",
       sizes(2, 128, 4) + R"("hidden_act":"silu","layer_norm_eps":1e-05,"rope_theta":8000000.0,"logit_scale":0.0625,)"
                          R"("use_qk_norm":false,"model_max_length":8192)",
       kDecoder},
      // stablelm-2-1_6b
      {"stablelm.q8_0", "StableLmForCausalLM",
       sizes(2, 96, 4) + R"("hidden_act":"silu","layer_norm_eps":1e-05,"rope_theta":10000,"partial_rotary_factor":0.25,)"
                         R"("use_qkv_bias":true,"use_parallel_residual":false,"qk_layernorm":false,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"attn_norm.bias", "input_layernorm.bias"},
                              {"ffn_norm.bias", "post_attention_layernorm.bias"},
                              {"output_norm.bias", "model.norm.bias"}}},
      // AFM-4.5B
      {"arcee.f16", "ArceeForCausalLM",
       sizes(2, 128) + R"("head_dim":32,"hidden_act":"relu2","rms_norm_eps":1e-05,"rope_theta":10000.0,"tie_word_embeddings":false,)"
                       R"("rope_scaling":{"rope_type":"yarn","factor":20.0,"original_max_position_embeddings":128})",
       kDecoder, publish_mistral3},
      // Llama-4-Scout-17B-16E-Instruct
      {"llama4.q4_0", "Llama4ForConditionalGeneration",
       R"("vision_config":{"hidden_size":8},"text_config":{)" + sizes(4, 32, 1) +
           R"("intermediate_size_mlp":96,"head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":500000.0,)"
           R"("rope_scaling":null,"num_local_experts":4,"num_experts_per_tok":1,"interleave_moe_layer_step":1,"use_qk_norm":true,)"
           R"("attention_chunk_size":8192,"no_rope_layers":[1,1,1,0],"attn_temperature_tuning":4,"floor_scale":8192,)"
           R"("attn_scale":0.1,"tie_word_embeddings":false})",
       kLlama4, publish_llama4, [](Weights&) {}, "language_model.model.layers."},
      // MiMo-V2-Flash
      {"mimo2.q8_0", "MiMoV2FlashForCausalLM",
       sizes(3, 128, 1) +
           R"("head_dim":48,"v_head_dim":32,"swa_head_dim":48,"swa_v_head_dim":32,"swa_num_attention_heads":4,)"
           R"("swa_num_key_value_heads":2,"hidden_act":"silu","layernorm_epsilon":1e-05,"rope_theta":5000000,)"
           R"("swa_rope_theta":10000,"partial_rotary_factor":0.334,"sliding_window":64,"hybrid_layer_pattern":[1,0,1],)"
           R"("moe_layer_freq":[0,1,1],"n_routed_experts":6,"n_shared_experts":null,"num_experts_per_tok":2,)"
           R"("moe_intermediate_size":32,"scoring_func":"sigmoid","topk_method":"noaux_tc","norm_topk_prob":true,"n_group":1,)"
           R"("topk_group":1,"routed_scaling_factor":null,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"attn_sinks.weight", "self_attn.attention_sink_bias"}}},
  };
}

}  // namespace

TEST(folders_of_decoders_compute_what_their_files_do) {
  for (const FamilyFolder& one : folders()) check_folder(one);
}

TEST(damaged_folders_of_decoders_never_do_harm) {
  for (const FamilyFolder& one : folders()) damage_folder(one, 25);
}

}  // namespace monolith
