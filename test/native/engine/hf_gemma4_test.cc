// Tests the three variants of Gemma 4 as Hugging Face directories: the logits are bit-identical to the logits of the
// GGUF file with the same weights.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "formats/hf/model_file.h"
#include "support/hf_folder.h"
#include "support/network_run.h"

namespace monolith {
namespace {

using namespace testing;

struct Form {
  const char* name;
  bool experts = false, per_layer = false;
};
constexpr Form kForms[] = {{"dense"}, {"experts", true}, {"per-layer inputs", false, true}};

constexpr uint32_t kEmbd = TinyModel::kEmbedding, kHeads = TinyModel::kHeads, kWindowHead = 16, kFullHead = 32;
constexpr uint32_t kExperts = 6, kExpertFf = 32, kPerLayer = 16;

bool is_windowed(uint32_t layer) { return layer % 3 != 2; }

TinyModel model_of(const Form& form) {
  const uint32_t n = form.per_layer ? 6 : 3, shared = form.per_layer ? 3 : 0;
  TinyModel model("gemma4", n);
  model.tensors.erase("output.weight");
  std::vector<bool> windowed;
  std::vector<uint32_t> kv_heads, widths;
  for (uint32_t i = 0; i < n; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    const uint32_t head = is_windowed(i) ? kWindowHead : kFullHead, kv = is_windowed(i) || form.per_layer ? 2 : 1;
    const uint32_t n_ff = i + shared >= n ? 2 * TinyModel::kFeedForward : TinyModel::kFeedForward;
    windowed.push_back(is_windowed(i));
    kv_heads.push_back(kv);
    widths.push_back(n_ff);
    model.matrix(block + "attn_q.weight", kHeads * head, kEmbd);
    model.matrix(block + "attn_k.weight", kv * head, kEmbd);
    model.matrix(block + "attn_v.weight", kv * head, kEmbd);
    model.matrix(block + "attn_output.weight", kEmbd, kHeads * head);
    model.norm(block + "attn_q_norm.weight", head);
    model.norm(block + "attn_k_norm.weight", head);
    // Full-attention layers use their keys as values.
    if (!form.per_layer && !is_windowed(i)) model.tensors.erase(block + "attn_v.weight");
    if (i + shared >= n)
      for (const char* name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
        model.tensors.erase(block + name);
    model.matrix(block + "ffn_gate.weight", n_ff, kEmbd);
    model.matrix(block + "ffn_up.weight", n_ff, kEmbd);
    model.matrix(block + "ffn_down.weight", kEmbd, n_ff);
    model.norm(block + "post_attention_norm.weight", kEmbd);
    model.norm(block + "post_ffw_norm.weight", kEmbd);
    model.norm(block + "layer_output_scale.weight", 1);
    if (form.experts) {
      for (const char* name : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"})
        model.norm(block + name + ".weight", kEmbd);
      model.matrix(block + "ffn_gate_inp.weight", kExperts, kEmbd);
      model.norm(block + "ffn_gate_inp.scale", kEmbd);
      model.norm(block + "ffn_down_exps.scale", kExperts);
      model.experts(block + "ffn_gate_up_exps.weight", kExperts, 2 * kExpertFf, kEmbd);
      model.experts(block + "ffn_down_exps.weight", kExperts, kEmbd, kExpertFf);
    }
    if (form.per_layer) {
      model.matrix(block + "inp_gate.weight", kPerLayer, kEmbd);
      model.matrix(block + "proj.weight", kEmbd, kPerLayer);
      model.norm(block + "post_norm.weight", kEmbd);
    }
  }
  if (form.per_layer) {
    model.matrix("per_layer_token_embd.weight", TinyModel::kVocab, n * kPerLayer);
    model.matrix("per_layer_model_proj.weight", n * kPerLayer, kEmbd);
    model.norm("per_layer_proj_norm.weight", kPerLayer);
    model.key("embedding_length_per_layer_input", kPerLayer);
    model.key("attention.shared_kv_layers", shared);
  }
  Bytes factors;
  for (uint32_t i = 0; i < kFullHead / 2; ++i) put(factors, i < kFullHead / 8 ? 1.0f : 1e30f);
  model.tensors["rope_freqs.weight"] = {{kFullHead / 2}, TensorType::kF32, 0, 0, factors};
  model.key("feed_forward_length", widths);
  model.key("attention.head_count_kv", kv_heads);
  model.key("attention.key_length", kFullHead);
  model.key("attention.value_length", kFullHead);
  model.key("attention.key_length_swa", kWindowHead);
  model.key("attention.value_length_swa", kWindowHead);
  model.key("attention.sliding_window", 7u);
  model.key("attention.sliding_window_pattern", windowed);
  model.key("rope.dimension_count", kFullHead);
  model.key("rope.dimension_count_swa", kWindowHead);
  model.key("rope.freq_base", 1e6f);
  model.key("rope.freq_base_swa", 1e4f);
  model.key("final_logit_softcapping", 30.0f);
  if (form.experts) {
    model.key("expert_count", kExperts);
    model.key("expert_used_count", 2u);
    model.key("expert_feed_forward_length", kExpertFf);
  }
  return model;
}

std::string config_of(const Form& form) {
  std::string types;
  for (uint32_t i = 0; i < (form.per_layer ? 6u : 3u); ++i)
    types += (i > 0 ? "," : "") + std::string(is_windowed(i) ? "\"sliding_attention\"" : "\"full_attention\"");
  std::string text =
      R"({"architectures":["Gemma4ForConditionalGeneration"],"vision_config":{"hidden_size":8},"text_config":{)"
      R"("hidden_activation":"gelu_pytorch_tanh","hidden_size":64,"intermediate_size":96,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"global_head_dim":32,)"
      R"("max_position_embeddings":256,"rms_norm_eps":1e-5,"sliding_window":7,"final_logit_softcapping":30.0,)"
      R"("rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":10000.0},)"
      R"("full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0}},)"
      R"("layer_types":[)" +
      types + "]";
  text +=
      form.per_layer
          ? R"(,"num_hidden_layers":6,"num_kv_shared_layers":3,"hidden_size_per_layer_input":16,"use_double_wide_mlp":true)"
          : R"(,"num_hidden_layers":3,"attention_k_eq_v":true,"num_global_key_value_heads":1,"hidden_size_per_layer_input":0)";
  if (form.experts) text += R"(,"enable_moe_block":true,"num_experts":6,"top_k_experts":2,"moe_intermediate_size":32)";
  return text + "}}";
}

std::vector<SafetensorData> tensors_of(const TinyModel& model) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"token_embd.weight", "embed_tokens.weight"},
      {"output_norm.weight", "norm.weight"},
      {"per_layer_token_embd.weight", "embed_tokens_per_layer.weight"},
      {"per_layer_model_proj.weight", "per_layer_model_projection.weight"},
      {"per_layer_proj_norm.weight", "per_layer_projection_norm.weight"},
      {"attn_norm.weight", "input_layernorm.weight"},
      {"attn_q.weight", "self_attn.q_proj.weight"},
      {"attn_k.weight", "self_attn.k_proj.weight"},
      {"attn_v.weight", "self_attn.v_proj.weight"},
      {"attn_output.weight", "self_attn.o_proj.weight"},
      {"attn_q_norm.weight", "self_attn.q_norm.weight"},
      {"attn_k_norm.weight", "self_attn.k_norm.weight"},
      {"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
      {"ffn_gate.weight", "mlp.gate_proj.weight"},
      {"ffn_up.weight", "mlp.up_proj.weight"},
      {"ffn_down.weight", "mlp.down_proj.weight"},
      {"layer_output_scale.weight", "layer_scalar"},
      {"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
      {"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
      {"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"},
      {"ffn_gate_inp.weight", "router.proj.weight"},
      {"ffn_gate_inp.scale", "router.scale"},
      {"ffn_down_exps.scale", "router.per_expert_scale"},
      {"ffn_gate_up_exps.weight", "experts.gate_up_proj"},
      {"ffn_down_exps.weight", "experts.down_proj"},
      {"inp_gate.weight", "per_layer_input_gate.weight"},
      {"proj.weight", "per_layer_projection.weight"},
      {"post_norm.weight", "post_per_layer_input_norm.weight"}};
  std::vector<SafetensorData> out;
  for (const auto& [name, tensor] : model.tensors) {
    if (name == "rope_freqs.weight") continue;  // Not in the checkpoint: derived.
    std::string prefix = "model.language_model.", rest = name;
    if (name.starts_with("blk.")) {
      const size_t dot = name.find('.', 4);
      prefix += "layers." + name.substr(4, dot - 4) + ".";
      rest = name.substr(dot + 1);
    }
    const std::vector<float> values = model.floats(name);
    out.push_back({prefix + kNames.at(rest),
                   "F32",
                   {tensor.dims.rbegin(), tensor.dims.rend()},
                   std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))});
  }
  // The loader ignores this tensor.
  out.push_back({"model.vision_tower.patch_embedder.weight", "F32", {1}, std::string(4, '\0')});
  return out;
}

}  // namespace

TEST(folders_of_gemma4_match_their_gguf_files) {
  const std::vector<int32_t> tokens = some_tokens(37);
  for (const Form& form : kForms) {
    const TinyModel model = model_of(form);
    const ParsedModel parsed(model);
    REQUIRE(parsed.file != nullptr);
    const ScratchFolder folder;
    folder.write("config.json", config_of(form));
    folder.write("tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                                   R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
    folder.write("model.safetensors", safetensors_of(tensors_of(model)));
    const auto opened = open_model_file(folder.path());
    if (!opened) {
      check::fail(__FILE__, __LINE__, std::string(form.name) + ": " + opened.error().message);
      continue;
    }
    const Loaded want = load_network(*parsed.file, {.threads = 1}), got = load_network(**opened, {.threads = 1});
    REQUIRE(want.model != nullptr && got.model != nullptr);
    if (run_network(*want.model, tokens, 37) != run_network(*got.model, tokens, 37))
      check::fail(__FILE__, __LINE__, std::string(form.name) + ": the folder's logits differ");
  }
}

}  // namespace monolith
