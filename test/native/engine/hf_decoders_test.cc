// Tests decoders whose only state is the KV cache, in their published form: with the names and tensor layouts from each
// model's modeling file in transformers.
#include "model/mixture_cases.h"
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

// modeling_ministral3.py applies RoPE to the two halves of a head.
void publish_mistral3(Weights& weights) {
  as_halves(weights, "attn_q.weight", 4);
  as_halves(weights, "attn_k.weight", 2);
}

// modeling_llama4.py (Llama4TextExperts): the expert weights have the shape [in, out], and gate and up are joined along
// the `out` dimension.
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

// modeling_step3p5.py: norms multiply by 1 + weight, and the gate of the heads is a separate matrix.
void publish_step35(Weights& weights) {
  for (auto& [name, tensor] : weights)
    if (name.ends_with("norm.weight")) as_norm_less_one(tensor);
}
void round_step35(Weights& weights) {
  for (auto& [name, tensor] : weights)
    if (name.ends_with("norm.weight")) as_rounded_norm(tensor);
}

// The RoPE scaling of Llama 3, which GGUF files store as one factor per pair: a context of 8192 tokens, extended by a
// factor of 8.
void round_apertus(Weights& weights) {
  std::vector<float>& factors = weights.at("rope_freqs.weight").values;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double wave = 2 * 3.14159265358979323846 * std::pow(12e6, 2.0 * static_cast<double>(i) / 32);
    const double kept = (8192 / wave - 1) / 3;
    factors[i] = static_cast<float>(wave < 8192.0 / 4 ? 1 : wave > 8192 ? 8 : 1 / ((1 - kept) / 8 + kept));
  }
}
// activations.py (XIELUActivation): checkpoints store the parameters of the activation as tensors per layer, GGUF files
// as metadata.
void publish_apertus(Weights& weights) {
  for (const auto& [name, values] :
       {std::pair{"alpha_p", std::pair{0.7f, 0.9f}}, std::pair{"alpha_n", std::pair{0.8f, 1.1f}},
        std::pair{"beta", std::pair{0.5f, 0.5f}}, std::pair{"eps", std::pair{-1e-6f, -1e-6f}}}) {
    weights[std::string("blk.0.") + name] = {{1}, {values.first}};
    weights[std::string("blk.1.") + name] = {{1}, {values.second}};
  }
}

std::string repeated(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + text;
  return out;
}

std::string gemma3n_layers() {
  std::string out;
  for (int i = 0; i < 21; ++i)
    out += (i > 0 ? "," : "") + std::string(i % 5 == 4 ? "\"full_attention\"" : "\"sliding_attention\"");
  return out;
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
const TensorNames kLlama4 =
    kDecoder + TensorNames{{"token_embd.weight", "language_model.model.embed_tokens.weight"},
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
      // Ministral-3-8B-Instruct-2512, with the older and the newer naming scheme.
      {"mistral3.f16", "Mistral3ForConditionalGeneration",
       R"("tie_word_embeddings":true,"vision_config":{"hidden_size":8},"text_config":{)" + ministral + "}",
       below_language_model(kDecoder), publish_mistral3, [](Weights&) {}, "model.language_model.layers."},
      {"mistral3.f16", "Ministral3ForCausalLM", R"("tie_word_embeddings":true,)" + ministral, kDecoder,
       publish_mistral3},
      // MiniMax-M2.
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
      // Phi-3.5-MoE-instruct. Its RoPE scaling is tested in folder_test.cc.
      {"phimoe.q8_0", "PhiMoEForCausalLM",
       sizes(2, 32) +
           R"("hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":10000.0,"rope_scaling":null,"attention_bias":true,)"
           R"("lm_head_bias":true,"num_local_experts":4,"num_experts_per_tok":2,"sliding_window":null,)"
           R"("tie_word_embeddings":false)",
       kDecoder + TensorNames{{"output.bias", "lm_head.bias"},
                              {"output_norm.bias", "model.norm.bias"},
                              {"attn_norm.bias", "input_layernorm.bias"},
                              {"ffn_norm.bias", "post_attention_layernorm.bias"},
                              {"attn_output.bias", "self_attn.o_proj.bias"},
                              {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
                              {"ffn_gate_exps.weight", "block_sparse_moe.experts.{}.w1.weight"},
                              {"ffn_up_exps.weight", "block_sparse_moe.experts.{}.w3.weight"},
                              {"ffn_down_exps.weight", "block_sparse_moe.experts.{}.w2.weight"}}},
      // Hunyuan-4B-Instruct and Hunyuan-A13B-Instruct. The scaled RoPE base is tested in folder_test.cc.
      {"hunyuan-dense.q8_0", "HunYuanDenseV1ForCausalLM",
       sizes(3, 64) +
           R"("head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":11158840.0,"use_qk_norm":true,)"
           R"("num_experts":1,"tie_word_embeddings":true)",
       kHunyuan},
      {"hunyuan-moe.q8_0", "HunYuanMoEV1ForCausalLM",
       sizes(2, 64) +
           R"("head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":11158840.0,"use_qk_norm":true,)"
           R"("num_experts":6,"moe_topk":[2,2],"moe_intermediate_size":[64,64],"num_shared_expert":[1,1],)"
           R"("use_mixed_mlp_moe":true,"tie_word_embeddings":true)",
       kHunyuan},
      // K-EXAONE-236B-A23B.
      {"exaone-moe.q8_0", "ExaoneMoEForCausalLM",
       sizes(4, 128) +
           R"("head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":1000000,"sliding_window":64,)"
           R"("sliding_window_pattern":"LLLG","layer_types":["sliding_attention","sliding_attention","sliding_attention",)"
           R"("full_attention"],"first_k_dense_replace":1,"num_experts":6,"num_experts_per_tok":2,"num_shared_experts":1,)"
           R"("moe_intermediate_size":32,"norm_topk_prob":true,"routed_scaling_factor":2.5,"n_group":1,"topk_group":1,)"
           R"("scoring_func":"sigmoid","num_nextn_predict_layers":1,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"exp_probs_b.bias", "mlp.e_score_correction_bias"}}},
      // c4ai-command-r7b-12-2024 and c4ai-command-r-v01. RoPE rotates adjacent pairs.
      {"cohere2.q8_0", "Cohere2ForCausalLM",
       sizes(4, 64) +
           R"("head_dim":32,"hidden_act":"silu","layer_norm_eps":1e-05,"rope_theta":50000,"sliding_window":64,"rotary_pct":1.0,)"
           R"("logit_scale":0.25,"layer_types":["sliding_attention","sliding_attention","sliding_attention","full_attention"])",
       kDecoder},
      {"command-r.f16", "CohereForCausalLM",
       sizes(2, 128, 4) + R"("hidden_act":"silu","layer_norm_eps":1e-05,"rope_theta":8000000.0,"logit_scale":0.0625,)"
                          R"("use_qk_norm":false,"model_max_length":8192)",
       kDecoder},
      // stablelm-2-1_6b.
      {"stablelm.q8_0", "StableLmForCausalLM",
       sizes(2, 96, 4) +
           R"("hidden_act":"silu","layer_norm_eps":1e-05,"rope_theta":10000,"partial_rotary_factor":0.25,)"
           R"("use_qkv_bias":true,"use_parallel_residual":false,"qk_layernorm":false,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"attn_norm.bias", "input_layernorm.bias"},
                              {"ffn_norm.bias", "post_attention_layernorm.bias"},
                              {"output_norm.bias", "model.norm.bias"}}},
      // AFM-4.5B.
      {"arcee.f16", "ArceeForCausalLM",
       sizes(2, 128) +
           R"("head_dim":32,"hidden_act":"relu2","rms_norm_eps":1e-05,"rope_theta":10000.0,"tie_word_embeddings":false,)"
           R"("rope_scaling":{"rope_type":"yarn","factor":20.0,"original_max_position_embeddings":128})",
       kDecoder, publish_mistral3},
      // Llama-4-Scout-17B-16E-Instruct.
      {"llama4.q4_0", "Llama4ForConditionalGeneration",
       R"("vision_config":{"hidden_size":8},"text_config":{)" + sizes(4, 32, 1) +
           R"("intermediate_size_mlp":96,"head_dim":32,"hidden_act":"silu","rms_norm_eps":1e-05,"rope_theta":500000.0,)"
           R"("rope_scaling":null,"num_local_experts":4,"num_experts_per_tok":1,"interleave_moe_layer_step":1,"use_qk_norm":true,)"
           R"("attention_chunk_size":8192,"no_rope_layers":[1,1,1,0],"attn_temperature_tuning":4,"floor_scale":8192,)"
           R"("attn_scale":0.1,"tie_word_embeddings":false})",
       kLlama4, publish_llama4, [](Weights&) {}, "language_model.model.layers."},
      // MiMo-V2-Flash.
      {"mimo2.q8_0", "MiMoV2FlashForCausalLM",
       sizes(3, 128, 1) +
           R"("head_dim":48,"v_head_dim":32,"swa_head_dim":48,"swa_v_head_dim":32,"swa_num_attention_heads":4,)"
           R"("swa_num_key_value_heads":2,"hidden_act":"silu","layernorm_epsilon":1e-05,"rope_theta":5000000,)"
           R"("swa_rope_theta":10000,"partial_rotary_factor":0.334,"sliding_window":64,"hybrid_layer_pattern":[1,0,1],)"
           R"("moe_layer_freq":[0,1,1],"n_routed_experts":6,"n_shared_experts":null,"num_experts_per_tok":2,)"
           R"("moe_intermediate_size":32,"scoring_func":"sigmoid","topk_method":"noaux_tc","norm_topk_prob":true,"n_group":1,)"
           R"("topk_group":1,"routed_scaling_factor":null,"tie_word_embeddings":false)",
       kDecoder + TensorNames{{"attn_sinks.weight", "self_attn.attention_sink_bias"}}},
      // Step-3.5-Flash.
      {"step35.q8_0", "Step3p5ForCausalLM",
       R"("hidden_size":128,"intermediate_size":128,"num_hidden_layers":3,"num_attention_heads":4,"num_attention_groups":2,)"
       R"("head_dim":32,"max_position_embeddings":8192,"rms_norm_eps":1e-05,"sliding_window":64,"layer_types":)"
       R"(["full_attention","sliding_attention","full_attention","sliding_attention"],"rope_theta":[5000000.0,10000.0,5000000.0],)"
       R"("partial_rotary_factors":[0.25,1.0,0.25],"attention_other_setting":{"num_attention_heads":6,"num_attention_groups":2,)"
       R"("head_dim":32},"moe_num_experts":6,"moe_top_k":2,"moe_intermediate_size":32,"share_expert_dim":32,)"
       R"("moe_router_scaling_factor":3.0,"norm_expert_weight":true,"moe_layers_enum":"1,2","use_moe_router_bias":true,)"
       R"("swiglu_limits":[0.0,0.0,1.0],"swiglu_limits_shared":[null,0.0,2.0],"use_head_wise_attn_gate":true)",
       kDecoder + TensorNames{{"attn_gate.weight", "self_attn.g_proj.weight"},
                              {"ffn_gate_inp.weight", "moe.gate.weight"},
                              {"exp_probs_b.bias", "moe.router_bias"},
                              {"ffn_gate_exps.weight", "moe.gate_proj.weight"},
                              {"ffn_up_exps.weight", "moe.up_proj.weight"},
                              {"ffn_down_exps.weight", "moe.down_proj.weight"},
                              {"ffn_gate_shexp.weight", "share_expert.gate_proj.weight"},
                              {"ffn_up_shexp.weight", "share_expert.up_proj.weight"},
                              {"ffn_down_shexp.weight", "share_expert.down_proj.weight"}},
       publish_step35, round_step35},
      // Apertus-8B-Instruct-2509.
      {"apertus.f16", "ApertusForCausalLM",
       sizes(2, 128) +
           R"("hidden_act":"xielu","rms_norm_eps":1e-05,"qk_norm":true,"rope_theta":12000000,"tie_word_embeddings":false,)"
           R"("rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
           R"("original_max_position_embeddings":8192})",
       kDecoder + TensorNames{{"attn_norm.weight", "attention_layernorm.weight"},
                              {"ffn_norm.weight", "feedforward_layernorm.weight"},
                              {"alpha_p", "mlp.act_fn.alpha_p"},
                              {"alpha_n", "mlp.act_fn.alpha_n"},
                              {"beta", "mlp.act_fn.beta"},
                              {"eps", "mlp.act_fn.eps"}},
       publish_apertus, round_apertus},
      // gemma-3n-E4B-it.
      {"gemma3n.q4_0", "Gemma3nForConditionalGeneration",
       R"("vision_config":{"hidden_size":8},"text_config":{"hidden_size":64,"intermediate_size":[)" +
           repeated(21, "192") +
           R"(],"num_hidden_layers":21,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,"sliding_window":64,)"
           R"("hidden_activation":"gelu_pytorch_tanh","max_position_embeddings":8192,"rms_norm_eps":1e-06,"rope_theta":1000000.0,)"
           R"("rope_local_base_freq":10000.0,"rope_scaling":null,"final_logit_softcapping":30.0,"num_kv_shared_layers":1,)"
           R"("altup_num_inputs":4,"altup_active_idx":0,"altup_coef_clip":120.0,"laurel_rank":64,"vocab_size_per_layer_input":304,)"
           R"("hidden_size_per_layer_input":256,"activation_sparsity_pattern":[)" +
           repeated(10, "0.95") + "," + repeated(11, "0.0") + R"(],"layer_types":[)" + gemma3n_layers() + "]}",
       below_language_model(kDecoder +
                            TensorNames{{"altup_proj.weight", "model.altup_projections.{}.weight"},
                                        {"altup_unembd_proj.weight", "model.altup_unembed_projections.{}.weight"},
                                        {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
                                        {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
                                        {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
                                        {"post_attention_norm.weight", "post_attention_layernorm.weight"},
                                        {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
                                        {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
                                        {"altup_correct_coef.weight", "altup.correction_coefs.weight"},
                                        {"altup_predict_coef.weight", "altup.prediction_coefs.weight"},
                                        {"altup_correct_scale.weight", "altup.correct_output_scale"},
                                        {"altup_router.weight", "altup.modality_router.weight"},
                                        {"altup_router_norm.weight", "altup.router_norm.weight"},
                                        {"laurel_l.weight", "laurel.linear_left.weight"},
                                        {"laurel_r.weight", "laurel.linear_right.weight"},
                                        {"laurel_post_norm.weight", "laurel.post_laurel_norm.weight"},
                                        {"inp_gate.weight", "per_layer_input_gate.weight"},
                                        {"proj.weight", "per_layer_projection.weight"},
                                        {"post_norm.weight", "post_per_layer_input_norm.weight"}}),
       // The rows of the embedding table beyond the vocabulary are dropped.
       [](Weights& weights) {
         FloatTensor& table = weights.at("token_embd.weight");
         table.shape[0] += 2;
         table.values.resize(table.values.size() + 2 * 64, 7.0f);
       },
       [](Weights&) {}, "model.language_model.layers."},
  };
}

}  // namespace

TEST(folders_of_decoders_match_their_gguf_files) {
  for (const FamilyFolder& one : folders()) check_folder(one);
}

namespace {

FamilyFolder folder_of(const std::string& name) {
  for (FamilyFolder& one : folders())
    if (name == one.name) return one;
  return {};
}

void replace(std::string& text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), by);
}

// Makes all MTP layers share the extra tensors of the first MTP layer.
void share_beside(LooseModel& model) {
  std::map<std::string, LooseModel::Tensor> copies;
  for (const auto& [name, tensor] : model.tensors)
    if (name.starts_with("blk.4.nextn.")) copies["blk.5." + name.substr(6)] = tensor;
  for (auto& [name, tensor] : copies) model.tensors[name] = std::move(tensor);
}

// Sets one flag per layer that specifies whether it has a sliding window.
void set_windows(LooseModel& model, const std::vector<uint8_t>& flags) {
  Bytes payload = GgufBuilder::array_header(static_cast<uint32_t>(GgufValueType::kBool), flags.size());
  for (const uint8_t flag : flags) payload.push_back(static_cast<std::byte>(flag));
  model.keys[model.key("attention.sliding_window_pattern")] = {static_cast<uint32_t>(GgufValueType::kArray), payload};
}

}  // namespace

// EXAONE's MTP layers share their extra tensors. The first MTP layer has a sliding window unless config.json says
// otherwise.
TEST(folders_of_exaone_load_their_mtp_layers) {
  FamilyFolder exaone = folder_of("ExaoneMoEForCausalLM");
  // The same model in a file as written by llama.cpp's converter.
  check_mtp_layers({exaone, "", mtp_names, 1, [](LooseModel& model) { set_windows(model, {1, 1, 1, 0}); }});
  exaone.config += R"(,"mtp_layer_types":["full_attention"])";
  check_mtp_layers({exaone, "", mtp_names, 1, [](LooseModel& model) { set_windows(model, {1, 1, 1, 0, 0}); }});
  replace(exaone.config, R"("full_attention"],"first_k)", R"("full_attention"],"mtp_sliding_windows":[64,0],"first_k)");
  replace(exaone.config, R"("mtp_layer_types":["full_attention"])",
          R"("mtp_layer_types":["sliding_attention","full_attention"])");
  replace(exaone.config, R"("num_nextn_predict_layers":1)", R"("num_nextn_predict_layers":2)");
  check_mtp_layers({exaone, "", mtp_names, 2, [](LooseModel& model) {
                      share_beside(model);
                      set_windows(model, {1, 1, 1, 0, 1, 0});
                    }});
}

// MiMo's MTP layers are numbered separately, and config.json does not specify how many there are.
TEST(folders_of_mimo_load_their_mtp_layers) {
  check_mtp_layers({folder_of("MiMoV2FlashForCausalLM"), "",
                    [](int level, const std::string& rest) {
                      const std::string name = rest == "shared_head.norm.weight"           ? "final_layernorm.weight"
                                               : rest == "post_attention_layernorm.weight" ? "pre_mlp_layernorm.weight"
                                                                                           : rest;
                      return "model.mtp.layers." + std::to_string(level) + "." + name;
                    },
                    3});
}

// Step 3.5's MTP layers follow the regular layers in the numbering, and each has its own output head.
TEST(folders_of_step_load_their_mtp_layers) {
  FamilyFolder step = folder_of("Step3p5ForCausalLM");
  replace(step.config, R"("full_attention","sliding_attention"],"rope_theta")", R"("full_attention"],"rope_theta")");
  replace(step.config, R"("swiglu_limits":[0.0,0.0,1.0],"swiglu_limits_shared":[null,0.0,2.0])",
          R"("swiglu_limits":[0.0,0.0,1.0,1.0,1.0,1.0],"swiglu_limits_shared":[null,0.0,2.0,2.0,2.0,2.0])");
  step.names["nextn.shared_head_head.weight"] = "shared_head.head.weight";
  check_mtp_layers({step, R"("num_nextn_predict_layers":3)",
                    [](int level, const std::string& rest) {
                      const std::string name = rest == "shared_head.norm.weight" ? "transformer.shared_head.norm.weight"
                                               : rest == "shared_head.head.weight"
                                                   ? "transformer.shared_head.output.weight"
                                                   : rest;
                      return "model.layers." + std::to_string(3 + level) + "." + name;
                    },
                    3,
                    [](LooseModel& model) {
                      for (const char* block : {"blk.3.", "blk.4.", "blk.5."}) {
                        LooseModel::Tensor head = model.tensors.at("output.weight");
                        model.put_floats(std::string(block) + "nextn.shared_head_head.weight", head.dims,
                                         made_up(static_cast<size_t>(head.values()), 7, 0.1f));
                      }
                    }});
}

// Ling's MTP layers also follow the regular layers in the numbering, and each ends with its own norm. There is no
// golden file for Ling, so the test builds a network.
TEST(folders_of_ling_load_their_mtp_layers) {
  const TinyModel ling = bailingmoe2().model;
  const Bytes image = ling.build();
  const auto file = GgufFile::parse(image);
  REQUIRE(file.ok());
  std::string config =
      config_of(**file, "BailingMoeV2ForCausalLM", "bailingmoe2",
                R"(,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"num_shared_experts":1,)"
                R"("first_k_dense_replace":1,"norm_topk_prob":true,"n_group":3,"topk_group":2,)"
                R"("routed_scaling_factor":2.5,"score_function":"sigmoid")");
  config = config.substr(config.find(',') + 1);
  config.pop_back();
  const TensorNames names = kDecoder + TensorNames{{"token_embd.weight", "model.word_embeddings.weight"},
                                                   {"attn_qkv.weight", "attention.query_key_value.weight"},
                                                   {"attn_q_norm.weight", "attention.query_layernorm.weight"},
                                                   {"attn_k_norm.weight", "attention.key_layernorm.weight"},
                                                   {"attn_output.weight", "attention.dense.weight"},
                                                   {"exp_probs_b.bias", "mlp.gate.expert_bias"}};
  const auto name = [](int level, const std::string& rest) {
    return "model.layers." + std::to_string(3 + level) + "." +
           (rest == "shared_head.norm.weight" ? "final_layernorm.weight" : rest);
  };
  for (const int levels : {1, 2})
    check_mtp_layers({{"", "BailingMoeV2ForCausalLM", config, names},
                      R"("num_nextn_predict_layers":)" + std::to_string(levels),
                      name,
                      levels},
                     **file);
}

TEST(damaged_folders_of_decoders_never_crash) {
  for (const FamilyFolder& one : folders()) damage_folder(one, 25);
}

}  // namespace monolith
