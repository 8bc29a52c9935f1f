#include "formats/hf/tensor_names.h"

#include <algorithm>
#include <iterator>

namespace monolith::hf {
namespace {

struct Name {
  std::string_view hf, gguf;
};

constexpr Name kOfModel[] = {
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"embed_tokens_per_layer", "per_layer_token_embd"},  // Gemma 4.
    {"per_layer_model_projection", "per_layer_model_proj"},
    {"per_layer_projection_norm", "per_layer_proj_norm"},
    {"wte", "token_embd"},
    {"ln_f", "output_norm"},            // Exaone.
    {"tok_embeddings", "token_embd"},   // InternLM 2.
    {"word_embeddings", "token_embd"},  // Ling.
    {"embeddings", "token_embd"},
    {"norm_f", "output_norm"},              // Mamba 2 and Nemotron H.
    {"embedding_norm", "token_embd_norm"},  // LFM2.
    {"final_layernorm", "output_norm"},     // Falcon H1.
    {"input_norm", "enc.output_norm"},      // EAGLE-3.
    {"embed", "token_embd"},                // DeepSeek V4.
};

// Names of the output matrix (without the model prefix).
constexpr std::string_view kOutputs[] = {"lm_head.weight", "output.weight", "head.weight"};

// Names within a layer. The meaning of post_attention_layernorm depends on the architecture (see
// Translator::layer_name()).
constexpr Name kOfLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"shared_mlp.output_linear", "ffn_down_shexp"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    // Ling.
    {"attention.dense", "attn_output"},
    {"attention.query_layernorm", "attn_q_norm"},
    {"attention.key_layernorm", "attn_k_norm"},
    // Gemma 4.
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {"router.proj", "ffn_gate_inp"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
    // Gemma 3n.
    {"altup.correction_coefs", "altup_correct_coef"},
    {"altup.prediction_coefs", "altup_predict_coef"},
    {"altup.modality_router", "altup_router"},
    {"altup.router_norm", "altup_router_norm"},
    {"laurel.linear_left", "laurel_l"},
    {"laurel.linear_right", "laurel_r"},
    {"laurel.post_laurel_norm", "laurel_post_norm"},
    // Apertus.
    {"attention_layernorm", "attn_norm"},
    {"feedforward_layernorm", "ffn_norm"},
    // Step 3.5.
    {"self_attn.g_proj", "attn_gate"},
    {"moe.gate", "ffn_gate_inp"},
    {"moe.gate_proj", "ffn_gate_exps"},
    {"moe.up_proj", "ffn_up_exps"},
    {"moe.down_proj", "ffn_down_exps"},
    {"share_expert.gate_proj", "ffn_gate_shexp"},
    {"share_expert.up_proj", "ffn_up_shexp"},
    {"share_expert.down_proj", "ffn_down_shexp"},
    // Exaone.
    {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},
    {"attn.attention.q_proj", "attn_q"},
    {"attn.attention.k_proj", "attn_k"},
    {"attn.attention.v_proj", "attn_v"},
    {"attn.attention.out_proj", "attn_output"},
    {"mlp.c_fc_0", "ffn_gate"},
    {"mlp.c_fc_1", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    // Qwen3-Next and Qwen3.5. family_tensors.cc handles the other tensors of their delta-net layers.
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.norm", "ssm_norm"},
    // DeepSeek V2 and its successors.
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b"},
    {"self_attn.indexer.wk", "indexer.attn_k"},
    {"self_attn.indexer.k_norm", "indexer.k_norm"},
    {"self_attn.indexer.weights_proj", "indexer.proj"},
    {"hidden_norm", "attn_norm_2"},  // EAGLE-3.
    // MTP layers that follow the model's regular layers.
    {"eh_proj", "nextn.eh_proj"},
    {"enorm", "nextn.enorm"},
    {"hnorm", "nextn.hnorm"},
    {"embed_tokens", "nextn.embed_tokens"},
    {"shared_head.norm", "nextn.shared_head_norm"},
    {"shared_head.head", "nextn.shared_head_head"},
    {"transformer.shared_head.norm", "nextn.shared_head_norm"},  // Step 3.5.
    {"transformer.shared_head.output", "nextn.shared_head_head"},
    {"pre_mlp_layernorm", "ffn_norm"},  // MiMo V2.
    {"final_layernorm", "layer_output_norm"},
    // Mamba 2 and Nemotron H.
    {"norm", "attn_norm"},
    {"mixer.in_proj", "ssm_in"},
    {"mixer.out_proj", "ssm_out"},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
    // Granite 4 and Falcon H1.
    {"mamba.in_proj", "ssm_in"},
    {"mamba.out_proj", "ssm_out"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    // LFM2.
    {"operator_norm", "attn_norm"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"conv.in_proj", "shortconv.in_proj"},
    {"conv.out_proj", "shortconv.out_proj"},
    {"feed_forward.gate", "ffn_gate_inp"},
    // Hunyuan.
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
    // Llama 4.
    {"feed_forward.router", "ffn_gate_inp"},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
    // Kimi Linear.
    {"self_attn.f_a_proj", "ssm_f_a"},
    {"self_attn.f_b_proj", "ssm_f_b"},
    {"self_attn.g_a_proj", "ssm_g_a"},
    {"self_attn.g_b_proj", "ssm_g_b"},
    {"self_attn.b_proj", "ssm_beta"},
    {"self_attn.o_norm", "ssm_norm"},
    {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
    {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"},
    // DeepSeek V4.
    {"attn_norm", "attn_norm"},
    {"attn.wq_a", "attn_q_a"},
    {"attn.q_norm", "attn_q_a_norm"},
    {"attn.wq_b", "attn_q_b"},
    {"attn.wkv", "attn_kv"},
    {"attn.kv_norm", "attn_kv_a_norm"},
    {"attn.wo_a", "attn_output_a"},
    {"attn.wo_b", "attn_output_b"},
    {"attn.compressor.wkv", "attn_compressor_kv"},
    {"attn.compressor.wgate", "attn_compressor_gate"},
    {"attn.compressor.norm", "attn_compressor_norm"},
    {"attn.indexer.wq_b", "indexer.attn_q_b"},
    {"attn.indexer.weights_proj", "indexer.proj"},
    {"attn.indexer.compressor.wkv", "indexer_compressor_kv"},
    {"attn.indexer.compressor.wgate", "indexer_compressor_gate"},
    {"attn.indexer.compressor.norm", "indexer_compressor_norm"},
    {"ffn.gate", "ffn_gate_inp"},
    {"ffn.shared_experts.w1", "ffn_gate_shexp"},
    {"ffn.shared_experts.w3", "ffn_up_shexp"},
    {"ffn.shared_experts.w2", "ffn_down_shexp"},
    // InternLM 2.
    {"attention_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"attention.wo", "attn_output"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},
};

// Tensors under "mtp." that are shared by all MTP layers (Qwen, EXAONE).
constexpr Name kOfDrafts[] = {
    {"fc", "nextn.eh_proj"},
    {"pre_fc_norm_embedding", "nextn.enorm"},
    {"pre_fc_norm_hidden", "nextn.hnorm"},
    {"norm", "nextn.shared_head_norm"},
};

// Names within one expert. The matrices of all experts are stacked.
constexpr Name kOfExpert[] = {
    {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"},
    {"w1", "ffn_gate_exps"},        {"w3", "ffn_up_exps"},      {"w2", "ffn_down_exps"},
};

// Full names within a layer that do not end in ".weight" or ".bias".
constexpr Name kPlainOfLayer[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"self_attn.attention_sink_bias", "attn_sinks.weight"},  // MiMo V2.
    {"self_attn.dt_bias", "ssm_dt.bias"},                    // Kimi Linear.
    {"layer_scalar", "layer_output_scale.weight"},
    // DeepSeek V4.
    {"attn.attn_sink", "attn_sinks.weight"},
    {"attn.compressor.ape", "attn_compressor_ape.weight"},
    {"attn.indexer.compressor.ape", "indexer_compressor_ape.weight"},
    {"hc_attn_fn", "hc_attn_fn.weight"},
    {"hc_attn_base", "hc_attn_base.weight"},
    {"hc_attn_scale", "hc_attn_scale.weight"},
    {"hc_ffn_fn", "hc_ffn_fn.weight"},
    {"hc_ffn_base", "hc_ffn_base.weight"},
    {"hc_ffn_scale", "hc_ffn_scale.weight"},
    {"altup.correct_output_scale", "altup_correct_scale.weight"},  // Gemma 3n.
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.down_proj", "ffn_down_exps.weight"},
};

// Biases added to the router scores only for selecting experts: a vector with one value per expert.
constexpr std::string_view kChoiceBiases[] = {"mlp.gate.e_score_correction_bias",
                                              "mlp.gate.expert_bias",
                                              "mlp.moe_statics.e_score_correction_bias",
                                              "mixer.gate.e_score_correction_bias",
                                              "feed_forward.expert_bias",
                                              "block_sparse_moe.e_score_correction_bias",
                                              "block_sparse_moe.gate.e_score_correction_bias",
                                              "mlp.e_score_correction_bias",
                                              "moe.router_bias",
                                              "ffn.gate.bias"};

// Prefixes before an expert's number.
constexpr std::string_view kExpertPrefixes[] = {"mlp.experts.", "block_sparse_moe.experts.", "mixer.experts.",
                                                "feed_forward.experts.", "ffn.experts."};

// Fused gate and up matrices of all experts or of the shared expert. Their shape is [..., 2 * width, embedding].
constexpr Name kFused[] = {
    {"block_sparse_moe.input_linear", "exps"},
    {"mlp.experts.gate_up_proj", "exps"},
    {"experts.gate_up_proj", "exps"},
    {"shared_mlp.input_linear", "shexp"},
};

template <size_t n>
std::string_view find(const Name (&names)[n], std::string_view hf) {
  const auto found = std::ranges::find(names, hf, &Name::hf);
  return found != std::end(names) ? found->gguf : std::string_view();
}

template <size_t n>
bool contains(const std::string_view (&names)[n], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

}  // namespace

std::string_view name_of_model(std::string_view stem) { return find(kOfModel, stem); }
std::string_view name_of_layer(std::string_view stem) { return find(kOfLayer, stem); }
std::string_view name_of_mtp(std::string_view stem) { return find(kOfDrafts, stem); }
std::string_view name_of_expert(std::string_view stem) { return find(kOfExpert, stem); }
std::string_view kind_of_fused(std::string_view stem) { return find(kFused, stem); }
std::string_view plain_name_of_layer(std::string_view name) { return find(kPlainOfLayer, name); }
bool is_output(std::string_view name) { return contains(kOutputs, name); }
bool is_choice_bias(std::string_view name) { return contains(kChoiceBiases, name); }

std::string_view without_model_prefix(std::string_view name) {
  for (const std::string_view prefix : {"model.language_model.", "language_model.model.", "model.text_model.", "model.",
                                        "transformer.", "ernie.", "backbone."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  constexpr std::string_view kText = "language_model.";
  if (name.starts_with(kText)) name.remove_prefix(kText.size());
  return name;
}

// Matches tensors that the text model does not use: vision and audio encoders, MTP layers, and RoPE frequencies, which
// are computed from the settings instead.
bool is_left_out(std::string_view name) {
  for (const std::string_view part :
       {"vision_tower.", "vision_model.", "visual.", "audio_tower.", "multi_modal_projector.",
        "connector.modality_projection.", "mm_projector.", "embed_vision.", "embed_audio.", "model.mtp_",
        "audio_encoder.", "speech_embeddings.", "sound_encoder.", "sound_projection."})
    if (name.find(part) != std::string_view::npos) return true;
  if (name == "image_newline" || name == "model.image_newline") return true;  // LLaVA 1.6.
  if (name.starts_with("mtp.") || name.starts_with("model.mtp.")) return true;
  return name.ends_with(".rotary_emb.inv_freq");
}

bool take_expert_prefix(std::string_view& stem) {
  for (const std::string_view prefix : kExpertPrefixes) {
    if (!stem.starts_with(prefix)) continue;
    stem.remove_prefix(prefix.size());
    return true;
  }
  return false;
}

}  // namespace monolith::hf
