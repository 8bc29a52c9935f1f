// Tests state-space models in their published form: Mamba 2, Nemotron H, Granite 4, Falcon H1 and LFM2. The names and
// tensor layouts come from transformers' modeling_mamba2.py, modeling_nemotron_h.py, modeling_granitemoehybrid.py,
// modeling_falcon_h1.py, modeling_lfm2.py and modeling_lfm2_moe.py. The settings come from the config.json of
// mamba2-130m-hf, NVIDIA-Nemotron-Nano-9B-v2, NVIDIA-Nemotron-3-Nano-30B-A3B, granite-4.0-h-tiny, Falcon-H1-1.5B,
// LFM2-1.2B and LFM2-8B-A1B.
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

// Tensor names within a Mamba2Mixer.
TensorNames mixer(const std::string& prefix) {
  return {{"ssm_in.weight", prefix + "in_proj.weight"},
          {"ssm_out.weight", prefix + "out_proj.weight"},
          {"ssm_conv1d.weight", prefix + "conv1d.weight"},
          {"ssm_conv1d.bias", prefix + "conv1d.bias"},
          {"ssm_a", prefix + "A_log"},
          {"ssm_d", prefix + "D"},
          {"ssm_dt.bias", prefix + "dt_bias"},
          {"ssm_norm.weight", prefix + "norm.weight"}};
}

const TensorNames kBackbone = mixer("mixer.") + TensorNames{{"token_embd.weight", "backbone.embeddings.weight"},
                                                            {"output_norm.weight", "backbone.norm_f.weight"},
                                                            {"output.weight", "lm_head.weight"},
                                                            {"attn_norm.weight", "norm.weight"}};
const TensorNames kNemotron =
    kBackbone + TensorNames{{"attn_q.weight", "mixer.q_proj.weight"},
                            {"attn_k.weight", "mixer.k_proj.weight"},
                            {"attn_v.weight", "mixer.v_proj.weight"},
                            {"attn_output.weight", "mixer.o_proj.weight"},
                            {"ffn_up.weight", "mixer.up_proj.weight"},
                            {"ffn_down.weight", "mixer.down_proj.weight"},
                            {"ffn_gate_inp.weight", "mixer.gate.weight"},
                            {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias"},
                            {"ffn_up_exps.weight", "mixer.experts.{}.up_proj.weight"},
                            {"ffn_down_exps.weight", "mixer.experts.{}.down_proj.weight"},
                            {"ffn_up_shexp.weight", "mixer.shared_experts.up_proj.weight"},
                            {"ffn_down_shexp.weight", "mixer.shared_experts.down_proj.weight"}};
const TensorNames kGranite = kDecoder + mixer("mamba.") +
                             TensorNames{{"ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight"},
                                         {"ffn_gate_up_exps.weight", "block_sparse_moe.input_linear.weight"},
                                         {"ffn_down_exps.weight", "block_sparse_moe.output_linear.weight"},
                                         {"shared.weight", "shared_mlp.input_linear.weight"},
                                         {"ffn_down_shexp.weight", "shared_mlp.output_linear.weight"}};
const TensorNames kFalcon = kDecoder + mixer("mamba.") +
                            TensorNames{{"output_norm.weight", "model.final_layernorm.weight"},
                                        {"ffn_norm", "pre_ff_layernorm.weight"},
                                        {"ffn_gate.weight", "feed_forward.gate_proj.weight"},
                                        {"ffn_up.weight", "feed_forward.up_proj.weight"},
                                        {"ffn_down.weight", "feed_forward.down_proj.weight"}};
const TensorNames kLfm = kDecoder + TensorNames{{"token_embd_norm.weight", "model.embedding_norm.weight"},
                                                {"attn_norm.weight", "operator_norm.weight"},
                                                {"ffn_norm.weight", "ffn_norm.weight"},
                                                {"attn_output.weight", "self_attn.out_proj.weight"},
                                                {"attn_q_norm.weight", "self_attn.q_layernorm.weight"},
                                                {"attn_k_norm.weight", "self_attn.k_layernorm.weight"},
                                                {"shortconv.conv.weight", "conv.conv.weight"},
                                                {"shortconv.in_proj.weight", "conv.in_proj.weight"},
                                                {"shortconv.out_proj.weight", "conv.out_proj.weight"},
                                                {"ffn_gate.weight", "feed_forward.w1.weight"},
                                                {"ffn_up.weight", "feed_forward.w3.weight"},
                                                {"ffn_down.weight", "feed_forward.w2.weight"},
                                                {"ffn_gate_inp.weight", "feed_forward.gate.weight"},
                                                {"exp_probs_b.bias", "feed_forward.expert_bias"},
                                                {"ffn_gate_exps.weight", "feed_forward.experts.{}.w1.weight"},
                                                {"ffn_up_exps.weight", "feed_forward.experts.{}.w3.weight"},
                                                {"ffn_down_exps.weight", "feed_forward.experts.{}.w2.weight"}};

void round(Weights& weights) { each(weights, "ssm_a", as_rounded_decay); }

void publish(Weights& weights) {
  each(weights, "ssm_a", as_log_of_decay);
  each(weights, "ssm_conv1d.weight", as_conv1d);
  for (const char* name : {"ssm_a", "ssm_d", "ssm_norm.weight"}) each(weights, name, as_vector);
}

void publish_granite(Weights& weights) {
  publish(weights);
  as_halves(weights, "attn_q.weight", 4);
  as_halves(weights, "attn_k.weight", 2);
  fuse_experts(weights);
  take_each(weights, "ffn_gate_shexp.weight", [&](const std::string& block, const FloatTensor& gate) {
    weights[block + "shared.weight"] = join_rows({&gate, &weights.at(block + "ffn_up_shexp.weight")}, 1);
    weights.erase(block + "ffn_up_shexp.weight");
  });
}

// FalconH1 multiplies by its factors at run time, so the weights are divided by them here. The factors are powers of
// two, so nothing is rounded.
void publish_falcon(Weights& weights) {
  publish(weights);
  const auto divide = [&](const char* name, float by) {
    each(weights, name, [by](FloatTensor& tensor) {
      for (float& value : tensor.values) value /= by;
    });
  };
  divide("token_embd.weight", 4);
  divide("output.weight", 0.125f);
  divide("attn_q.weight", 2);
  divide("attn_v.weight", 2);
  divide("attn_k.weight", 2 * 0.25f);
  divide("attn_output.weight", 0.5f);
  divide("ffn_gate.weight", 8);
  divide("ffn_down.weight", 0.0625f);
  divide("ssm_out.weight", 16);
  each(weights, "ssm_in.weight", [](FloatTensor& tensor) {
    constexpr size_t kInner = 128, kState = 32;  // mup_vector: z, x, B, C, dt.
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const size_t row = i / 128;
      const float by = row < kInner                    ? 2.0f
                       : row < 2 * kInner              ? 0.5f
                       : row < 2 * kInner + kState     ? 4.0f
                       : row < 2 * kInner + 2 * kState ? 0.25f
                                                       : 8.0f;
      tensor.values[i] /= by * 32;
    }
  });
}

void publish_lfm(Weights& weights) { each(weights, "shortconv.conv.weight", as_conv1d); }

std::string sizes(int layers, int width) {
  return R"("hidden_size":128,"num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":8192,)"
         R"("num_hidden_layers":)" +
         std::to_string(layers) + R"(,"intermediate_size":)" + std::to_string(width) + ",";
}

std::vector<FamilyFolder> folders() {
  const std::string nemotron =
      R"("head_dim":32,"mlp_hidden_act":"relu2","mamba_hidden_act":"silu","mamba_num_heads":4,"mamba_head_dim":32,"n_groups":2,)"
      R"("ssm_state_size":32,"conv_kernel":4,"expand":2,"layer_norm_epsilon":1e-05,"use_bias":false,"use_conv_bias":true,)"
      R"("time_step_limit":[0.0,Infinity],"tie_word_embeddings":false,)";
  const std::string lfm = R"("norm_eps":1e-05,"conv_L_cache":3,"conv_bias":false,"rope_theta":1000000.0,)"
                          R"("layer_types":["conv","full_attention","conv","full_attention"])";
  return {
      {"nemotron-h.q8_0", "NemotronHForCausalLM",
       sizes(6, 96) + nemotron + R"("num_experts_per_tok":2,"n_routed_experts":8,"hybrid_override_pattern":"M-M*-M")",
       kNemotron, publish, round, "backbone.layers."},
      {"nemotron-h-moe.q8_0", "NemotronHForCausalLM",
       sizes(5, 32) + nemotron +
           R"("num_experts_per_tok":2,"n_routed_experts":5,"n_shared_experts":1,"moe_intermediate_size":32,)"
           R"("moe_shared_expert_intermediate_size":64,"norm_topk_prob":true,"routed_scaling_factor":2.5,"n_group":1,)"
           R"("topk_group":1,"layers_block_type":["mamba","moe","mamba","attention","moe"])",
       kNemotron, publish, round, "backbone.layers."},
      {"granitehybrid.q8_0", "GraniteMoeHybridForCausalLM",
       sizes(3, 32) +
           R"("hidden_act":"silu","rms_norm_eps":1e-05,"tie_word_embeddings":true,"layer_types":["mamba","attention","mamba"],)"
           R"("mamba_n_heads":4,"mamba_d_head":64,"mamba_n_groups":1,"mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,)"
           R"("num_local_experts":4,"num_experts_per_tok":2,"shared_intermediate_size":64,"position_embedding_type":"nope",)"
           R"("rope_theta":10000,"attention_multiplier":0.12,"embedding_multiplier":12,"residual_multiplier":0.4,)"
           R"("logits_scaling":6)",
       kGranite, publish_granite, round},
      {"falcon-h1.q8_0", "FalconH1ForCausalLM",
       sizes(2, 64) +
           R"("hidden_act":"silu","head_dim":32,"rms_norm_eps":1e-05,"rope_theta":100000000000.0,"tie_word_embeddings":false,)"
           R"("mamba_d_ssm":128,"mamba_n_heads":4,"mamba_d_head":32,"mamba_n_groups":1,"mamba_d_state":32,"mamba_d_conv":4,)"
           R"("mamba_expand":2,"mamba_rms_norm":false,"mamba_norm_before_gate":false,"embedding_multiplier":4,)"
           R"("lm_head_multiplier":0.125,"attention_in_multiplier":2,"attention_out_multiplier":0.5,"key_multiplier":0.25,)"
           R"("mlp_multipliers":[8,0.0625],"ssm_in_multiplier":32,"ssm_out_multiplier":16,"ssm_multipliers":[2,0.5,4,0.25,8])",
       kFalcon, publish_falcon, round},
      {"mamba2.q8_0", "Mamba2ForCausalLM",
       R"("hidden_size":128,"num_hidden_layers":3,"num_heads":8,"head_dim":32,"n_groups":1,"state_size":32,"conv_kernel":4,)"
       R"("expand":2,"hidden_act":"silu","layer_norm_epsilon":1e-05,"tie_word_embeddings":true,"max_position_embeddings":8192)",
       kBackbone, publish, round, "backbone.layers."},
      {"lfm2.f16", "Lfm2ForCausalLM", sizes(4, 64) + R"("block_auto_adjust_ff_dim":false,)" + lfm, kLfm, publish_lfm},
      {"lfm2moe.q8_0", "Lfm2MoeForCausalLM",
       sizes(4, 64) +
           R"("num_dense_layers":2,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":32,"norm_topk_prob":true,)"
           R"("use_expert_bias":true,"routed_scaling_factor":1.0,)" +
           lfm,
       kLfm, publish_lfm},
  };
}

}  // namespace

TEST(folders_of_state_space_models_match_their_gguf_files) {
  for (const FamilyFolder& one : folders()) check_folder(one);
}

TEST(damaged_folders_of_state_space_models_never_crash) {
  for (const FamilyFolder& one : folders()) damage_folder(one, 25);
}

}  // namespace monolith
