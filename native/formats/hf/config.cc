#include "formats/hf/config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "formats/gguf/parser.h"
#include "formats/hf/mtp_tensors.h"
#include "formats/hf/translation.h"

namespace monolith::hf {
namespace {

// The context length assumed for models without attention, whose state does not grow with the context.
constexpr int64_t kBoundlessContext = 1 << 20;

// Returns setting `name` from the text section, or from the top level if the text section does not contain it.
JsonValue text_setting(const JsonValue& config, std::string_view name) {
  const JsonValue inner = config["text_config"][name];
  return inner.exists() ? inner : config[name];
}

bool is_variant(const JsonValue& config, Variant variant) {
  const auto attends_only = [&] {
    const JsonValue types = text_setting(config, "layer_types");
    for (size_t i = 0; i < types.items().size(); ++i)
      if (types.item(i).text() != "attention") return false;
    return !types.items().empty();
  };
  const auto has_experts = [&] {
    const JsonValue count = text_setting(config, "num_local_experts");
    const auto stated = count.integer();
    return stated && stated->value_or(0) > 0;
  };
  const auto has_expert_layers = [&] {  // Nemotron H.
    const JsonValue kinds = text_setting(config, "layers_block_type");
    for (size_t i = 0; i < kinds.items().size(); ++i)
      if (kinds.item(i).text() == "moe") return true;
    return text_setting(config, "hybrid_override_pattern").text().find('E') != std::string_view::npos;
  };
  switch (variant) {
    case Variant::kAny: return true;
    case Variant::kMistral4: return text_setting(config, "model_type").text() == "mistral4";
    case Variant::kExperts: return has_expert_layers();
    case Variant::kAttention: return attends_only() && !has_experts();
    case Variant::kAttentionAndExperts: return attends_only() && has_experts();
  }
  return false;
}

// Multimodal classes that can contain one of several text models. The model type in the text section determines the
// architecture.
constexpr std::string_view kAroundText[] = {"Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration",
                                            "LlavaForConditionalGeneration",    "LlavaNextForConditionalGeneration",
                                            "InternVLForConditionalGeneration", "Lfm2VlForConditionalGeneration"};
struct TextType {
  std::string_view type, architecture;
};
constexpr TextType kTextTypes[] = {
    {"llama", "LlamaForCausalLM"}, {"mistral", "MistralForCausalLM"},    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"}, {"qwen3_moe", "Qwen3MoeForCausalLM"}, {"gpt_oss", "GptOssForCausalLM"},
    {"lfm2", "Lfm2ForCausalLM"},   {"lfm2_moe", "Lfm2MoeForCausalLM"},   {"phi3", "Phi3ForCausalLM"},
    {"gemma", "GemmaForCausalLM"}, {"gemma2", "Gemma2ForCausalLM"},      {"smollm3", "SmolLM3ForCausalLM"},
};

bool is_around_text(std::string_view name) { return std::ranges::find(kAroundText, name) != std::end(kAroundText); }

Result<const Architecture*> read_architecture(const JsonValue& config) {
  const JsonValue names = config["architectures"];
  if (!names.is_array() || names.items().empty()) return config["architectures"].invalid("is missing or empty");
  std::string_view name = names.item(0).text();
  if (is_around_text(name)) {
    const JsonValue type = config["text_config"]["model_type"];
    const auto* const known =
        std::ranges::find(kTextTypes, type.exists() ? type.text() : usual_text_type(name), &TextType::type);
    if (known == std::end(kTextTypes))
      return type.unsupported("is " + in_quotes(type.text()) + ": this text model is not supported within " +
                              in_quotes(name));
    name = known->architecture;
  }
  for (const Architecture& known : architectures())
    if (known.name == name && is_variant(config, known.variant)) return &known;
  const std::string similar = similar_architectures(name);
  return names.unsupported(in_quotes(name) + " is not supported (" +
                           (similar.empty() ? "" : "similar classes: " + similar + "; ") +
                           "docs/reference/models.md lists all supported classes)");
}

void check_activation(Translation& t) {
  const JsonValue value = t.first_of({"mlp_hidden_act", "hidden_activation", "hidden_act", "activation_function"});
  const std::string_view name = value.text();
  const auto expect = [&](std::string_view usual, std::string_view other) {
    if (value.exists() && name != usual && name != other)
      t.fail(value.unsupported("is " + in_quotes(name) + ", expected " + in_quotes(usual)));
  };
  switch (t.architecture().activation) {
    case Activation::kSilu: return expect("silu", "swish");
    // The first Gemma checkpoints specify "gelu", although the models use the tanh approximation of GELU.
    case Activation::kGelu: return expect("gelu_pytorch_tanh", "gelu");
    case Activation::kReluSquared: return expect("relu2", "relu_squared");
    case Activation::kXielu: return expect("xielu", "xielu");
  }
}

void translate_scales(Translation& t, int64_t layers, int64_t embedding) {
  t.copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  t.copy_number("final_logit_softcapping", "final_logit_softcapping");
  t.copy_number("attention_multiplier", "attention.scale");
  if (t.architecture().family != Family::kFalconH1) t.copy_number("embedding_multiplier", "embedding_scale");
  t.copy_number("residual_multiplier", "residual_scale");
  t.copy_number("logits_scaling", "logit_scale");
  if (t.architecture().gguf != "minicpm") return;
  t.out().number(t.key("embedding_scale"), t.needed_number("scale_emb"));
  t.out().number(t.key("residual_scale"), t.needed_number("scale_depth") / std::sqrt(static_cast<double>(layers)));
  t.out().number(t.key("logit_scale"), static_cast<double>(embedding) / t.needed_number("dim_model_base"));
}

// Rejects settings that change the computation but have no GGUF key, unless they are set to a value that disables them.
void check_unused(Translation& t) {
  for (const std::string_view name : {"clip_qkv", "sparse_config"})
    if (const JsonValue value = t.find(name); value.exists())
      t.fail(value.unsupported("is set, which is not supported"));
  if (t.architecture().family != Family::kBlocks && t.number("swiglu_limit", 7) != 7)
    t.fail(t.find("swiglu_limit").unsupported("is not 7"));
  if (t.boolean("norm_head", false)) t.fail(t.find("norm_head").unsupported("is true, which is not supported"));
}

// Whether "layer_types" and similar settings describe sliding windows.
bool has_windows(const Architecture& architecture) {
  return architecture.family == Family::kPlain || architecture.family == Family::kGemma4;
}

// SmolLM3 does not apply RoPE in every fourth layer. Its config.json lists these layers; the list must match that
// pattern.
void check_unrotated_layers(Translation& t) {
  if (t.architecture().gguf != "smollm3") return;
  const JsonValue list = t.find("no_rope_layers");
  auto flags = list.numbers();
  if (!flags) return t.fail(flags.error());
  for (size_t i = 0; i < flags->size(); ++i)
    if (((*flags)[i] != 0) != ((i + 1) % 4 != 0))
      return t.fail(list.unsupported("breaks the pattern of three layers with RoPE and one without"));
}

}  // namespace

Result<Config> translate_config(const JsonValue& config, const std::vector<Safetensor>& tensors, AssembledFile& file) {
  auto architecture = read_architecture(config);
  if (!architecture) return architecture.error();
  Translation t(config, **architecture, file);
  Config result{.architecture = *architecture};
  const JsonValue stored = t.first_of({"quantization_config", "compression_config"});
  auto quantization = read_quantization(stored);
  if (!quantization) return quantization.error();
  if (stored["quant_method"].text() == "mxfp4" && (*architecture)->gguf != "gpt-oss")
    return stored.unsupported("(method 'mxfp4') is only supported for gpt-oss");
  result.quantization = *quantization;
  AssembledFile& out = file;
  out.string("general.architecture", (*architecture)->gguf);
  // translate_family() runs before the general keys are written, because AssembledFile keeps the first value that is
  // added for a key.
  const int64_t embedding = t.needed({"hidden_size"});
  if (t.find("hybrid_override_pattern").exists() || t.find("layers_block_type").exists()) {
    const JsonValue kinds = t.first_of({"hybrid_override_pattern", "layers_block_type"});
    result.layers = static_cast<int64_t>(kinds.is_array() ? kinds.items().size() : kinds.text().size());
    if (result.layers > kMaxLayers) return kinds.invalid("names more than " + std::to_string(kMaxLayers) + " layers");
  } else {
    result.layers = t.needed({"num_hidden_layers", "num_layers"}, kMaxLayers);
  }
  if ((*architecture)->drafts != MtpPlacement::kNone) {
    const JsonValue stated = t.find((*architecture)->draft_key);
    const auto count = stated.exists() ? std::optional(t.take(stated.integer(0, kMax), int64_t{0})) : std::nullopt;
    result.mtp_layers = count_mtp_layers(tensors, (*architecture)->drafts, result.layers, count);
  }
  out.integer(t.key("block_count"), static_cast<uint64_t>(result.layers + result.mtp_layers));
  if (result.mtp_layers > 0) out.integer(t.key("nextn_predict_layers"), static_cast<uint64_t>(result.mtp_layers));
  const bool attends = (*architecture)->family != Family::kMamba2;
  result.heads = attends ? t.needed({"num_attention_heads"}) : 0;
  result.kv_heads = t.integer("num_key_value_heads", t.integer("num_attention_groups", result.heads));
  const bool own_head_dim =
      t.first_of({"head_dim", "attention_head_dim"}).exists() && !(*architecture)->gguf.starts_with("granite");
  const int64_t head_dim =
      own_head_dim ? t.needed({"head_dim", "attention_head_dim"}) : embedding / std::max<int64_t>(result.heads, 1);
  const int64_t full_head_dim = translate_family(t, result, embedding, head_dim);
  const int64_t context =
      attends || t.find("max_position_embeddings").exists() ? t.needed({"max_position_embeddings"}) : kBoundlessContext;
  const auto size = [&](std::string_view name, int64_t value) {
    out.integer(t.key(name), static_cast<uint64_t>(value));
  };
  size("context_length", context);
  size("embedding_length", embedding);
  if (!out.has(t.key("feed_forward_length")))
    size("feed_forward_length", t.needed({"intermediate_size", "moe_intermediate_size"}));
  size("attention.head_count", result.heads);
  size("attention.head_count_kv", result.kv_heads);
  if (own_head_dim) {
    size("attention.key_length", head_dim);
    size("attention.value_length", head_dim);
  }
  out.number(t.key("attention.layer_norm_rms_epsilon"),
             t.number("rms_norm_eps", t.number("layer_norm_epsilon", t.number("norm_eps", (*architecture)->rms_eps))));
  t.copy_number("layer_norm_eps", "attention.layer_norm_epsilon");
  check_activation(t);
  check_unused(t);
  if (attends) translate_rope(t, context, full_head_dim);
  if (has_windows(**architecture)) translate_windows(t, result);
  translate_experts(t, result);
  check_unrotated_layers(t);
  translate_scales(t, result.layers, embedding);
  const bool is_encoder = (*architecture)->gguf == "gemma-embedding" || (*architecture)->gguf == "eurobert";
  if (!is_encoder && (!t.boolean("is_causal", true) || t.find("use_bidirectional_attention").text() == "all"))
    t.fail(t.find(t.find("is_causal").exists() ? "is_causal" : "use_bidirectional_attention")
               .unsupported("requests attention in both directions, which is supported only in text encoders"));
  if ((*architecture)->gguf == "gemma-embedding" && !t.boolean("use_bidirectional_attention", false))
    t.fail(
        t.find("use_bidirectional_attention").unsupported("is not true: this class is supported only as an encoder"));
  if (const std::string_view gguf = (*architecture)->gguf;
      gguf == "gemma2" || gguf == "gemma3" || gguf == "gemma-embedding") {
    // Attention scores are scaled by head_dim ^ -1/2. The largest model of each generation is an exception; GGUF
    // readers recognize it by its number of layers.
    const double scaled = t.number("query_pre_attn_scalar", static_cast<double>(head_dim));
    const bool largest = result.layers == 46 || result.layers == 62;
    const double expected =
        largest ? static_cast<double>(embedding) / static_cast<double>(result.heads) : static_cast<double>(head_dim);
    if (scaled != expected)
      t.fail(t.find("query_pre_attn_scalar").unsupported("differs from the head size, which is not supported"));
  }
  // Some config.json files of models with tied embeddings omit this setting, so the architecture's default applies if
  // it is missing.
  const JsonValue tied = t.first_of({"tie_word_embeddings", "tie_embedding"});
  result.tied = t.take(tied.boolean(), (*architecture)->tied) && (*architecture)->family != Family::kEagle;
  if (!t.status()) return t.status().error();
  return result;
}

}  // namespace monolith::hf
