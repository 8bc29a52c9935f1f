// Tests every architecture as a Hugging Face directory: the logits are bit-identical to the logits of the GGUF file
// with the same weights.
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "model/all_cases.h"
#include "formats/hf/model_file.h"
#include "support/hf_folder.h"
#include "support/network_run.h"

namespace monolith {
namespace {

using namespace testing;

using Names = std::map<std::string, std::string, std::less<>>;

// A network and the layout of its checkpoint. `names` maps the stems of GGUF names to checkpoint names that differ from
// Llama's.
struct FolderCase {
  Case network;
  std::string name;         // Class name.
  std::string config = {};  // Additional members of config.json.
  Names names = {};
  bool interleaved = false;  // RoPE pairs are interleaved in the GGUF file, but not in the checkpoint.
  bool norms_from_one = false;
  std::string experts = {};  // Name pattern of each expert's matrices, with "{}" for the expert index.
  Names expert_names = {{"gate", "gate_proj"}, {"up", "up_proj"}, {"down", "down_proj"}};
};

// The prefix that precedes a layer number, and the names of tensors outside the layers.
struct Roots {
  std::string layers = "model.layers.";
  Names model = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
};

const Names kLlama = {{"attn_norm", "input_layernorm"},
                      {"attn_q", "self_attn.q_proj"},
                      {"attn_k", "self_attn.k_proj"},
                      {"attn_v", "self_attn.v_proj"},
                      {"attn_qkv", "self_attn.qkv_proj"},
                      {"attn_output", "self_attn.o_proj"},
                      {"attn_q_norm", "self_attn.q_norm"},
                      {"attn_k_norm", "self_attn.k_norm"},
                      {"ffn_norm", "post_attention_layernorm"},
                      {"post_attention_norm", "post_attention_layernorm"},
                      {"post_ffw_norm", "post_feedforward_layernorm"},
                      {"ffn_gate", "mlp.gate_proj"},
                      {"ffn_up", "mlp.up_proj"},
                      {"ffn_down", "mlp.down_proj"},
                      {"ffn_gate_inp", "mlp.gate"},
                      {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                      {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                      {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
                      {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"}};
const Names kGemma = {{"ffn_norm", "pre_feedforward_layernorm"}};
const Names kFused = {{"ffn_up", "mlp.gate_up_proj"}};
const Names kGlm = {{"ffn_up", "mlp.gate_up_proj"},
                    {"post_attention_norm", "post_self_attn_layernorm"},
                    {"post_ffw_norm", "post_mlp_layernorm"}};
const Names kExaone = {{"attn_norm", "ln_1"},
                       {"ffn_norm", "ln_2"},
                       {"attn_q", "attn.attention.q_proj"},
                       {"attn_k", "attn.attention.k_proj"},
                       {"attn_v", "attn.attention.v_proj"},
                       {"attn_output", "attn.attention.out_proj"},
                       {"ffn_gate", "mlp.c_fc_0"},
                       {"ffn_up", "mlp.c_fc_1"},
                       {"ffn_down", "mlp.c_proj"}};
const Names kInternLm = {{"attn_norm", "attention_norm"}, {"ffn_norm", "ffn_norm"},
                         {"attn_output", "attention.wo"}, {"ffn_gate", "feed_forward.w1"},
                         {"ffn_up", "feed_forward.w3"},   {"ffn_down", "feed_forward.w2"}};

const Names kShared = {{"exp_probs_b", "mlp.gate.e_score_correction_"},
                       {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                       {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                       {"ffn_down_shexp", "mlp.shared_experts.down_proj"}};
Names with(Names names, const Names& more) {
  for (const auto& [stem, name] : more) names.insert_or_assign(stem, name);
  return names;
}
const Names kGlmMoe = with(kShared, {{"nextn.eh_proj", "eh_proj"}});
const Names kErnie = with(kShared, {{"exp_probs_b", "mlp.moe_statics.e_score_correction_"}});
const Names kLing = with(kShared, {{"exp_probs_b", "mlp.gate.expert_"},
                                   {"attn_qkv", "attention.query_key_value"},
                                   {"attn_output", "attention.dense"},
                                   {"attn_q_norm", "attention.query_layernorm"},
                                   {"attn_k_norm", "attention.key_layernorm"}});

Roots roots_of(const std::string& name) {
  if (name == "ExaoneForCausalLM")
    return {"transformer.h.",
            {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.ln_f"}, {"output", "lm_head"}}};
  if (name == "InternLM2ForCausalLM")
    return {"model.layers.",
            {{"token_embd", "model.tok_embeddings"}, {"output_norm", "model.norm"}, {"output", "output"}}};
  if (name.starts_with("Exaone4_5"))
    return {"model.language_model.layers.",
            {{"token_embd", "model.language_model.embed_tokens"},
             {"output_norm", "model.language_model.norm"},
             {"output", "lm_head"}}};
  if (name.starts_with("Bailing"))
    return {"model.layers.",
            {{"token_embd", "model.word_embeddings"}, {"output_norm", "model.norm"}, {"output", "lm_head"}}};
  return {};
}

std::string bytes_of(const TinyModel& model, const std::string& name) {
  const std::vector<float> values = model.floats(name);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<int64_t> shape_of(const TinyModel& model, const std::string& name) {
  const auto& dims = model.tensors.at(name).dims;
  return {dims.rbegin(), dims.rend()};
}

class Checkpoint {
 public:
  explicit Checkpoint(const FolderCase& one) : one_(one), roots_(roots_of(one.name)) {}

  std::vector<SafetensorData> tensors() && {
    for (const auto& [name, tensor] : one_.network.model.tensors) add(name);
    return std::move(tensors_);
  }

 private:
  const TinyModel& model() const { return one_.network.model; }

  void put(const std::string& name, std::vector<int64_t> shape, std::string bytes) {
    tensors_.push_back({name, "F32", std::move(shape), std::move(bytes)});
  }

  void add(const std::string& name) {
    if (name.starts_with("rope_")) return;
    std::string prefix, rest = name;
    if (name.starts_with("blk.")) {
      const size_t dot = name.find('.', 4);
      prefix = roots_.layers + name.substr(4, dot - 4) + ".";
      rest = name.substr(dot + 1);
    }
    const std::string stem = rest.substr(0, rest.rfind('.')), suffix = rest.substr(rest.rfind('.'));
    std::vector<int64_t> shape = shape_of(model(), name);
    std::string bytes = bytes_of(model(), name);
    if (one_.norms_from_one && stem.ends_with("norm")) bytes = less_one(bytes);
    if (one_.interleaved && (stem == "attn_q" || stem == "attn_k"))
      bytes = with_halves(bytes, stem == "attn_q" ? TinyModel::kHeads : TinyModel::kKvHeads, shape[0]);
    if (one_.name == "BailingMoeForCausalLM" && (stem == "attn_q" || stem == "attn_k" || stem == "attn_v")) {
      auto& parts = grouped_[prefix];
      parts[stem] = bytes;
      if (parts.size() == 3)
        put(prefix + "attention.query_key_value.weight", {kQ + 2 * kKv, kEmbd},
            parts["attn_q"] + parts["attn_k"] + parts["attn_v"]);
      return;
    }
    if (one_.name == "InternLM2ForCausalLM" && (stem == "attn_q" || stem == "attn_k" || stem == "attn_v"))
      return add_grouped(prefix, stem, bytes);
    if (stem.ends_with("_exps")) return add_experts(prefix, stem.substr(4, stem.size() - 9), shape, bytes);
    if (stem.ends_with("_shexp") && one_.name.starts_with("GraniteMoe")) {
      if (stem == "ffn_down_shexp") return put(prefix + "shared_mlp.output_linear.weight", shape, bytes);
      if (stem != "ffn_gate_shexp") return;
      const std::string up = bytes_of(model(), block_of(name) + "ffn_up_shexp.weight");
      return put(prefix + "shared_mlp.input_linear.weight", {2 * shape[0], shape[1]}, bytes + up);
    }
    if (stem == "ffn_gate_inp_shexp") shape = {1, shape[0]};
    // The name ends in "e_score_correction_bias", without a further ".bias". In Ernie, this tensor has two dimensions.
    if (stem == "exp_probs_b" && one_.name.starts_with("Ernie")) shape = {1, shape[0]};
    put(prefix + hf_name(prefix.empty(), stem) + (stem == "exp_probs_b" ? "bias" : suffix), shape, bytes);
  }

  static std::string block_of(const std::string& name) { return name.substr(0, name.find('.', 4) + 1); }

  std::string hf_name(bool of_model, const std::string& stem) const {
    if (of_model) return roots_.model.at(stem);
    const auto own = one_.names.find(stem);
    return own != one_.names.end() ? own->second : kLlama.at(stem);
  }

  static std::string less_one(std::string bytes) {
    for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      value -= 1;  // Exact, because all values are close to 1.
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
    return bytes;
  }

  void add_experts(const std::string& prefix, const std::string& which, const std::vector<int64_t>& shape,
                   const std::string& bytes) {
    const size_t one = bytes.size() / static_cast<size_t>(shape[0]);
    if (one_.name == "Qwen3VLMoeForConditionalGeneration") {  // Layout [in, out], gate and up next to each other.
      const auto column = [&](const std::string& experts, int64_t expert, int64_t col) {
        std::string out;
        for (int64_t row = 0; row < shape[1]; ++row)
          out += experts.substr(static_cast<size_t>((expert * shape[1] + row) * shape[2] + col) * sizeof(float),
                                sizeof(float));
        return out;
      };
      std::string& gate = gates_[prefix];
      if (which == "gate") gate = bytes;
      if (which == "gate") return;
      std::string turned;
      for (int64_t expert = 0; expert < shape[0]; ++expert)
        for (int64_t col = 0; col < shape[2]; ++col)
          turned += (which == "up" ? column(gate, expert, col) : "") + column(bytes, expert, col);
      if (which == "down") return put(prefix + "mlp.experts.down_proj", {shape[0], shape[2], shape[1]}, turned);
      return put(prefix + "mlp.experts.gate_up_proj", {shape[0], shape[2], 2 * shape[1]}, turned);
    }
    if (one_.experts.empty()) {  // Granite: gate above up, expert by expert.
      if (which == "down") return put(prefix + "block_sparse_moe.output_linear.weight", shape, bytes);
      std::string& gate = gates_[prefix];
      if (which == "gate") {
        gate = bytes;
        return;
      }
      std::string both;
      for (size_t at = 0; at < bytes.size(); at += one) both += gate.substr(at, one) + bytes.substr(at, one);
      return put(prefix + "block_sparse_moe.input_linear.weight", {shape[0], 2 * shape[1], shape[2]}, both);
    }
    for (int64_t i = 0; i < shape[0]; ++i) {
      std::string name = one_.experts + one_.expert_names.at(which) + ".weight";
      name.replace(name.find("{}"), 2, std::to_string(i));
      put(prefix + name, {shape[1], shape[2]}, bytes.substr(static_cast<size_t>(i) * one, one));
    }
  }

  // Writes a fused matrix whose rows are grouped by key head. Each group consists of the queries, the key and the
  // value.
  void add_grouped(const std::string& prefix, const std::string& stem, const std::string& bytes) {
    auto& parts = grouped_[prefix];
    parts[stem] = bytes;
    if (parts.size() < 3) return;
    const size_t groups = TinyModel::kKvHeads;
    std::string ordered;
    for (size_t group = 0; group < groups; ++group)
      for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
        const std::string& data = parts.at(part);
        ordered += data.substr(data.size() / groups * group, data.size() / groups);
      }
    put(prefix + "attention.wqkv.weight", {kQ + 2 * kKv, kEmbd}, ordered);
  }

  const FolderCase& one_;
  Roots roots_;
  std::vector<SafetensorData> tensors_;
  std::map<std::string, std::string> gates_;
  std::map<std::string, std::map<std::string, std::string>> grouped_;
};

// gpt-oss with experts in MXFP4.
Case gpt_oss_packed() {
  Case one = gpt_oss();
  uint32_t random = 3;
  for (auto& [name, tensor] : one.model.tensors) {
    if (!name.ends_with("_exps.weight")) continue;
    const size_t blocks = tensor.dims[0] * tensor.dims[1] * tensor.dims[2] / 32;
    tensor.type = TensorType::kMXFP4;
    for (size_t i = 0; i < blocks * 17; ++i) {
      random = random * 1664525 + 1013904223;
      tensor.data.push_back(static_cast<std::byte>(i % 17 == 0 ? 120 + (random >> 30) : random >> 24));
    }
  }
  return one;
}

// Converts GGUF's MXFP4 blocks to the checkpoint's layout. A GGUF block has a scale and 16 bytes; each byte holds a
// value and the value 16 positions later. The checkpoint stores the scales separately, with two adjacent values per
// byte.
std::pair<std::string, std::string> unpacked(const Bytes& packed) {
  std::string numbers, scales;
  for (size_t at = 0; at < packed.size(); at += 17) {
    scales += static_cast<char>(packed[at]);
    const auto value = [&](size_t i) {
      const auto byte = static_cast<unsigned>(packed[at + 1 + i % 16]);
      return i < 16 ? byte & 15 : byte >> 4;
    };
    for (size_t i = 0; i < 32; i += 2) numbers += static_cast<char>(value(i) | value(i + 1) << 4);
  }
  return {numbers, scales};
}

// Interleaves the rows of `a` and `b`.
std::string in_turns(const std::string& a, const std::string& b, size_t row) {
  std::string out;
  for (size_t at = 0; at < a.size(); at += row) out += a.substr(at, row) + b.substr(at, row);
  return out;
}

// The checkpoint's tensors. Tensors that are not specific to gpt-oss follow the general rules.
std::vector<SafetensorData> gpt_oss_tensors(const TinyModel& model) {
  TinyModel rest = model;
  std::vector<SafetensorData> own;
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::string from = block_name(layer), to = "model.layers." + std::to_string(layer) + ".";
    const auto data = [&](const char* name) { return unpacked(model.tensors.at(from + name).data); };
    const auto [gate, gate_scales] = data("ffn_gate_exps.weight");
    const auto [up, up_scales] = data("ffn_up_exps.weight");
    const auto [down, down_scales] = data("ffn_down_exps.weight");
    own.push_back(
        {to + "mlp.experts.gate_up_proj_blocks", "U8", {kExperts, 2 * kOssFf, 2, 16}, in_turns(gate, up, 32)});
    own.push_back(
        {to + "mlp.experts.gate_up_proj_scales", "U8", {kExperts, 2 * kOssFf, 2}, in_turns(gate_scales, up_scales, 2)});
    own.push_back({to + "mlp.experts.down_proj_scales", "U8", {kExperts, kEmbd, kOssFf / 32}, down_scales});
    own.push_back({to + "mlp.experts.down_proj_blocks", "U8", {kExperts, kEmbd, kOssFf / 32, 16}, down});
    own.push_back(
        {to + "mlp.experts.gate_up_proj_bias",
         "F32",
         {kExperts, 2 * kOssFf},
         in_turns(bytes_of(model, from + "ffn_gate_exps.bias"), bytes_of(model, from + "ffn_up_exps.bias"), 4)});
    own.push_back(
        {to + "mlp.experts.down_proj_bias", "F32", {kExperts, kEmbd}, bytes_of(model, from + "ffn_down_exps.bias")});
    own.push_back({to + "self_attn.sinks", "F32", {TinyModel::kHeads}, bytes_of(model, from + "attn_sinks.weight")});
    for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"})
      for (const char* suffix : {".weight", ".bias"}) rest.tensors.erase(from + name + suffix);
    rest.tensors.erase(from + "attn_sinks.weight");
  }
  FolderCase one{{"", rest, {}}, "GptOssForCausalLM", "", {{"ffn_gate_inp", "mlp.router"}}};
  for (SafetensorData& tensor : Checkpoint(one).tensors()) own.push_back(std::move(tensor));
  return own;
}

std::vector<FolderCase> folder_cases() {
  const std::string mixtral_experts = R"(,"num_local_experts":6,"num_experts_per_tok":2)";
  const std::string granite_scales =
      R"(,"attention_multiplier":0.125,"embedding_multiplier":12,"residual_multiplier":0.22,"logits_scaling":8)";
  const auto long_rope = [](int original) {
    return R"(,"partial_rotary_factor":0.75,"sliding_window":7,"original_max_position_embeddings":)" +
           std::to_string(original) +
           R"(,"rope_scaling":{"type":"longrope","attention_factor":1.25,"short_factor":[1.5,1.5,1.5,1.5,1.5,1.5],)"
           R"("long_factor":[6,6,6,6,6,6]})";
  };
  const std::string mlp_experts = "mlp.experts.{}.";
  const std::string glm_moe =
      R"(,"n_routed_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"n_shared_experts":1,)"
      R"("first_k_dense_replace":1,"routed_scaling_factor":1.5,"norm_topk_prob":true,"n_group":1,"topk_group":1,)"
      R"("num_nextn_predict_layers":1)";
  return {
      {llama_like("llama", false), "LlamaForCausalLM", "", {}, true},
      {mistral(), "MistralForCausalLM", R"(,"sliding_window":7)", {}, true},
      {biased_llama(), "LlamaForCausalLM", R"(,"attention_bias":true,"mlp_bias":true)", {}, true},
      {mixtral(),
       "MixtralForCausalLM",
       mixtral_experts,
       {{"ffn_gate_inp", "block_sparse_moe.gate"}},
       true,
       false,
       "block_sparse_moe.experts.{}.",
       {{"gate", "w1"}, {"up", "w3"}, {"down", "w2"}}},
      {qwen2moe(),
       "Qwen2MoeForCausalLM",
       R"(,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"shared_expert_intermediate_size":80,)"
       R"("norm_topk_prob":false,"sliding_window":7,"use_sliding_window":false)",
       {},
       false,
       false,
       mlp_experts},
      {qwen3moe(),
       "Qwen3MoeForCausalLM",
       R"(,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"norm_topk_prob":true,)"
       R"("mlp_only_layers":[])",
       {},
       false,
       false,
       mlp_experts},
      {qwen2vl(), "Qwen2VLForConditionalGeneration",
       R"(,"rope_scaling":{"type":"mrope","mrope_section":[2,3,3]},"use_sliding_window":false)"},
      {qwen2vl(), "Qwen2_5_VLForConditionalGeneration",
       R"(,"rope_scaling":{"rope_type":"default","type":"default","mrope_section":[2,3,3]})"},
      {qwen3vl(), "Qwen3VLForConditionalGeneration",
       R"(,"rope_scaling":{"mrope_interleaved":true,"mrope_section":[3,3,2],"rope_type":"default"},)"
       R"("vision_config":{"deepstack_visual_indexes":[5,11]})"},
      {qwen3moe("qwen3vlmoe"), "Qwen3VLMoeForConditionalGeneration",
       R"(,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"norm_topk_prob":true,"mlp_only_layers":[],)"
       R"("rope_scaling":{"mrope_interleaved":true,"mrope_section":[3,3,2],"rope_type":"default"})"},
      {olmoe(),
       "OlmoeForCausalLM",
       R"(,"num_experts":6,"num_experts_per_tok":2,"norm_topk_prob":false,"clip_qkv":null)",
       {},
       false,
       false,
       mlp_experts},
      {gemma(), "GemmaForCausalLM", "", {}, false, true},
      {gemma2(), "Gemma2ForCausalLM",
       R"(,"sliding_window":7,"attn_logit_softcapping":1.5,"final_logit_softcapping":4,"query_pre_attn_scalar":16)",
       kGemma, false, true},
      {gemma3(), "Gemma3ForCausalLM",
       R"(,"sliding_window":7,"sliding_window_pattern":6,"rope_local_base_freq":10000,)"
       R"("rope_scaling":{"rope_type":"linear","factor":8},"query_pre_attn_scalar":16)",
       kGemma, false, true},
      {phi3(128, 1.5), "Phi3ForCausalLM", long_rope(128), kFused},
      {phi3(64, 6), "Phi3ForCausalLM", long_rope(64), kFused},
      {smollm3(), "SmolLM3ForCausalLM", R"(,"no_rope_layers":[1,1,1,0,1])", {}, true},
      {granite(true), "GraniteForCausalLM", granite_scales, {}, true},
      {granitemoe(false),
       "GraniteMoeForCausalLM",
       granite_scales + mixtral_experts,
       {{"ffn_gate_inp", "block_sparse_moe.router.layer"}},
       true},
      {granitemoe(true),
       "GraniteMoeSharedForCausalLM",
       granite_scales + mixtral_experts + R"(,"shared_intermediate_size":80)",
       {{"ffn_gate_inp", "block_sparse_moe.router.layer"}},
       true},
      {minicpm(),
       "MiniCPMForCausalLM",
       R"(,"scale_emb":12,"scale_depth":0.3111269837220809,"dim_model_base":8)",
       {},
       true},
      {olmo2(false), "Olmo2ForCausalLM"},
      {olmo2(true), "Olmo3ForCausalLM",
       R"(,"sliding_window":7,"rope_scaling":{"rope_type":"linear","factor":4},"layer_types":["sliding_attention",)"
       R"("sliding_attention","full_attention","sliding_attention"])"},
      {llama_like("exaone", true), "ExaoneForCausalLM", R"(,"activation_function":"silu")", kExaone},
      {exaone4(false), "Exaone4ForCausalLM", R"(,"sliding_window":null,"sliding_window_pattern":"LLLG")"},
      {exaone4(true), "Exaone4ForCausalLM", R"(,"sliding_window":7,"sliding_window_pattern":"LLLG")"},
      {exaone4(true), "Exaone4_5_ForConditionalGeneration",
       R"(,"model_type":"exaone4","sliding_window":7,"layer_types":["sliding_attention","sliding_attention","sliding_attention",)"
       R"("full_attention","sliding_attention"])"},
      {glm4(), "Glm4ForCausalLM", R"(,"attention_bias":true,"partial_rotary_factor":0.5)", kGlm},
      {glm4(), "Glm4ForCausalLM", R"(,"attention_bias":true)", kGlm},
      {glm4moe(false), "Glm4MoeForCausalLM", glm_moe, kGlmMoe, false, false, mlp_experts},
      {glm4moe(true), "Glm4MoeForCausalLM", glm_moe, kGlmMoe, false, false, mlp_experts},
      {dots1(), "Dots1ForCausalLM",
       R"(,"n_routed_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"n_shared_experts":2,)"
       R"("first_k_dense_replace":1,"routed_scaling_factor":2.5,"norm_topk_prob":true,"sliding_window":null,)"
       R"("n_group":1,"topk_group":1,"scoring_func":"sigmoid")",
       kShared, false, false, mlp_experts},
      {bailingmoe(), "BailingMoeForCausalLM",
       R"(,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"num_shared_experts":2,)"
       R"("first_k_dense_replace":0,"norm_topk_prob":true,"norm_head":false)",
       kLing, true, false, mlp_experts},
      {bailingmoe2(), "BailingMoeV2ForCausalLM",
       R"(,"num_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":48,"num_shared_experts":1,)"
       R"("first_k_dense_replace":1,"norm_topk_prob":true,"n_group":3,"topk_group":2,"routed_scaling_factor":2.5,)"
       R"("score_function":"sigmoid","num_nextn_predict_layers":0)",
       kLing, false, false, mlp_experts},
      {ernie4_5_moe(), "Ernie4_5_MoeForCausalLM",
       R"(,"moe_num_experts":6,"moe_k":2,"moe_intermediate_size":48,"moe_num_shared_experts":2,"use_bias":false,)"
       R"("moe_layer_start_index":1,"moe_layer_end_index":-1,"moe_layer_interval":1)",
       kErnie, false, false, mlp_experts},
      {gpt_oss_packed(), "GptOssForCausalLM",
       R"(,"num_local_experts":6,"num_experts_per_tok":2,"swiglu_limit":7.0,"sliding_window":7,"attention_bias":true,)"
       R"("layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],)"
       R"("quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]},)"
       R"("rope_scaling":{"rope_type":"yarn","factor":4.0,"beta_fast":32.0,"beta_slow":1.0,"truncate":false,)"
       R"("original_max_position_embeddings":64})"},
      {seed_oss(), "SeedOssForCausalLM"},
      {llama_like("ernie4_5", false), "Ernie4_5ForCausalLM", R"(,"use_bias":false)"},
      {llama_like("internlm2", false), "InternLM2ForCausalLM",
       R"(,"bias":false,"rope_scaling":{"type":"dynamic","factor":2.0})", kInternLm, true},
      {llama_like("xverse", false), "XverseForCausalLM", "", {}, true},
  };
}

std::string config_text(const FolderCase& one, const GgufFile& file) {
  std::string config = config_of(file, one.name, one.network.model.architecture, one.config);
  // This checkpoint's layer count does not include the MTP layer.
  if (one.name == "Glm4MoeForCausalLM")
    config.replace(config.find("\"num_hidden_layers\":4"), 21, "\"num_hidden_layers\":3");
  if (one.name.starts_with("Exaone4_5")) {  // Nested next to the vision config.
    const size_t text = config.find(',') + 1;
    config =
        config.substr(0, text) + R"("vision_config":{"hidden_size":8},"text_config":{)" + config.substr(text) + "}";
  }
  if (one.norms_from_one) config.replace(config.find("\"silu\""), 6, "\"gelu_pytorch_tanh\"");
  if (one.name == "ExaoneForCausalLM")
    for (const auto& [from, to] :
         {std::pair{"\"hidden_act\"", "\"unused\""}, std::pair{"\"num_hidden_layers\"", "\"num_layers\""},
          std::pair{"\"rms_norm_eps\"", "\"layer_norm_epsilon\""}})
      config.replace(config.find(from), std::string_view(from).size(), to);
  return config;
}

}  // namespace

TEST(folders_of_every_architecture_match_their_gguf_files) {
  const std::vector<int32_t> tokens = some_tokens(37);
  for (const FolderCase& one : folder_cases()) {
    const ParsedModel parsed(one.network.model);
    REQUIRE(parsed.file != nullptr);
    const ScratchFolder folder;
    folder.write("config.json", config_text(one, *parsed.file));
    folder.write("tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                                   R"("model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
    folder.write("model.safetensors",
                 safetensors_of(one.name == "GptOssForCausalLM" ? gpt_oss_tensors(one.network.model)
                                                                : Checkpoint(one).tensors()));
    const auto opened = open_model_file(folder.path());
    if (!opened) {
      check::fail(__FILE__, __LINE__, one.name + ": " + opened.error().message);
      continue;
    }
    const Loaded want = load_network(*parsed.file, {.threads = 1}), got = load_network(**opened, {.threads = 1});
    REQUIRE(want.model != nullptr && got.model != nullptr);
    if (run_network(*want.model, tokens, 37) != run_network(*got.model, tokens, 37))
      check::fail(__FILE__, __LINE__, one.network.name + ": the folder's logits differ");
  }
}

// Expert biases have two dimensions but are not matrices, so they are not quantized.
TEST(moe_models_with_biases_are_quantized_while_loading) {
  const ModelFile file(gpt_oss().model);
  REQUIRE(!file.path().empty());
  const auto opened = open_model_file(file.path(), {.quantize = TensorType::kQ4_0});
  REQUIRE(opened.ok());
  CHECK((*opened)->tensor("blk.0.ffn_up_exps.weight")->type == TensorType::kQ4_0);
  CHECK((*opened)->tensor("blk.0.ffn_up_exps.bias")->type == TensorType::kF32);
  CHECK((*opened)->tensor("blk.0.ffn_gate_inp.weight")->type == TensorType::kF32);
  CHECK(load_network(**opened, {.threads = 1}).model != nullptr);
}

}  // namespace monolith
