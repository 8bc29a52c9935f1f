// Tests DeepSeek V4 in its published form: with the tensor names in inference/model.py and the settings in the
// config.json of DeepSeek-V4-Flash.
#include "support/family_check.h"

namespace monolith {
namespace {

using namespace testing;

const TensorNames kNames = {{"token_embd.weight", "embed.weight"},
                            {"output_norm.weight", "norm.weight"},
                            {"output.weight", "head.weight"},
                            {"output_hc_fn.weight", "hc_head_fn"},
                            {"output_hc_base.weight", "hc_head_base"},
                            {"output_hc_scale.weight", "hc_head_scale"},
                            {"hc_attn_fn.weight", "hc_attn_fn"},
                            {"hc_attn_base.weight", "hc_attn_base"},
                            {"hc_attn_scale.weight", "hc_attn_scale"},
                            {"hc_ffn_fn.weight", "hc_ffn_fn"},
                            {"hc_ffn_base.weight", "hc_ffn_base"},
                            {"hc_ffn_scale.weight", "hc_ffn_scale"},
                            {"attn_norm.weight", "attn_norm.weight"},
                            {"attn_q_a.weight", "attn.wq_a.weight"},
                            {"attn_q_a_norm.weight", "attn.q_norm.weight"},
                            {"attn_q_b.weight", "attn.wq_b.weight"},
                            {"attn_kv.weight", "attn.wkv.weight"},
                            {"attn_kv_a_norm.weight", "attn.kv_norm.weight"},
                            {"attn_sinks.weight", "attn.attn_sink"},
                            {"attn_output_a.weight", "attn.wo_a.weight"},
                            {"attn_output_b.weight", "attn.wo_b.weight"},
                            {"attn_compressor_ape.weight", "attn.compressor.ape"},
                            {"attn_compressor_kv.weight", "attn.compressor.wkv.weight"},
                            {"attn_compressor_gate.weight", "attn.compressor.wgate.weight"},
                            {"attn_compressor_norm.weight", "attn.compressor.norm.weight"},
                            {"indexer.attn_q_b.weight", "attn.indexer.wq_b.weight"},
                            {"indexer.proj.weight", "attn.indexer.weights_proj.weight"},
                            {"indexer_compressor_ape.weight", "attn.indexer.compressor.ape"},
                            {"indexer_compressor_kv.weight", "attn.indexer.compressor.wkv.weight"},
                            {"indexer_compressor_gate.weight", "attn.indexer.compressor.wgate.weight"},
                            {"indexer_compressor_norm.weight", "attn.indexer.compressor.norm.weight"},
                            {"ffn_norm.weight", "ffn_norm.weight"},
                            {"ffn_gate_inp.weight", "ffn.gate.weight"},
                            {"exp_probs_b.bias", "ffn.gate.bias"},
                            {"ffn_gate_tid2eid.weight", "ffn.gate.tid2eid"},
                            {"ffn_gate_exps.weight", "ffn.experts.{}.w1.weight"},
                            {"ffn_down_exps.weight", "ffn.experts.{}.w2.weight"},
                            {"ffn_up_exps.weight", "ffn.experts.{}.w3.weight"},
                            {"ffn_gate_shexp.weight", "ffn.shared_experts.w1.weight"},
                            {"ffn_down_shexp.weight", "ffn.shared_experts.w2.weight"},
                            {"ffn_up_shexp.weight", "ffn.shared_experts.w3.weight"}};

FamilyFolder folder() {
  return {
      "deepseek4.mxfp4_moe",
      "DeepseekV4ForCausalLM",
      R"("hidden_size":128,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":64,)"
      R"("qk_rope_head_dim":16,"q_lora_rank":64,"o_groups":2,"o_lora_rank":32,"sliding_window":32,"hidden_act":"silu",)"
      R"("max_position_embeddings":8192,"rms_norm_eps":1e-06,"rope_theta":10000,"compress_rope_theta":160000,)"
      R"("compress_ratios":[0,4,128,0],"index_n_heads":4,"index_head_dim":64,"index_topk":16,"hc_mult":4,)"
      R"("hc_sinkhorn_iters":20,"hc_eps":1e-06,"num_hash_layers":1,"n_routed_experts":6,"n_shared_experts":1,)"
      R"("num_experts_per_tok":2,"moe_intermediate_size":32,"intermediate_size":64,"norm_topk_prob":true,"routed_scaling_factor":1.5,)"
      R"("scoring_func":"sqrtsoftplus","topk_method":"noaux_tc","swiglu_limit":10.0,"num_nextn_predict_layers":1,)"
      R"("attention_bias":false,"tie_word_embeddings":false)",
      kNames,
      [](Weights&) {},
      [](Weights&) {},
      "layers."};
}

void replace(std::string& text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), by);
}

constexpr std::string_view kStretch =
    R"("factor":16.0,"original_max_position_embeddings":64,"beta_fast":32,"beta_slow":1)";

// The same settings in the form written by transformers 5.9 and later: layer kinds are given by name, and the two kinds
// of layers have separate RoPE settings.
FamilyFolder newer_folder(const std::string& blocked) {
  FamilyFolder one = folder();
  replace(one.config, R"("qk_rope_head_dim":16,)", "");
  replace(one.config, R"("compress_ratios":[0,4,128,0],)",
          R"("layer_types":["sliding_attention","compressed_sparse_attention","heavily_compressed_attention"],)"
          R"("compress_rates":{"compressed_sparse_attention":4,"heavily_compressed_attention":128},)");
  replace(one.config, R"("num_hash_layers":1,)", R"("mlp_layer_types":["hash_moe","moe","moe"],)");
  replace(
      one.config, R"("rope_theta":10000,"compress_rope_theta":160000,)",
      R"("rope_parameters":{"main":{"rope_type":"default","rope_theta":10000.0,"partial_rotary_factor":0.25},"compress":{)" +
          blocked + R"("rope_theta":160000.0,"partial_rotary_factor":0.25}},)");
  return one;
}

std::vector<float> logits_of_folder(const FamilyFolder& one) {
  const auto file = GgufFile::open(check::vectors_path(std::string("models/") + one.file + ".gguf"));
  if (!file) {
    check::fail(__FILE__, __LINE__, file.error().message);
    return {};
  }
  const ScratchFolder folder;
  folder.write("config.json", config_of(one));
  folder.write("tokenizer.json", kSmallTokenizer);
  folder.write("model.safetensors", safetensors_of(renamed(weights_of(**file), one.names, one.layers)));
  return family_logits(folder.path(), one.name);
}

}  // namespace

TEST(folders_of_deepseek4_with_newer_settings_match_their_gguf_files) {
  check_folder(newer_folder(R"("rope_type":"default",)"));
  if (check::vectors_path("models/deepseek4.mxfp4_moe.gguf").empty()) return;
  FamilyFolder older = folder();
  const std::vector<float> plain = logits_of_folder(older);
  replace(older.config, R"("rope_theta":10000,)",
          R"("rope_theta":10000,"rope_scaling":{"type":"yarn",)" + std::string(kStretch) + "},");
  const std::vector<float> want = logits_of_folder(older);
  CHECK(plain != want);
  CHECK(want == logits_of_folder(newer_folder(R"("rope_type":"yarn",)" + std::string(kStretch) + ",")));
}

TEST(folders_of_deepseek4_match_their_gguf_files) { check_folder(folder()); }
TEST(damaged_folders_of_deepseek4_never_crash) { damage_folder(folder(), 25); }

}  // namespace monolith
