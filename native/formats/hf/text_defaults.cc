#include "formats/hf/text_defaults.h"

#include <array>
#include <string>

namespace monolith::hf {
namespace {

struct Usual {
  std::string_view type, settings;
};
// The defaults of the transformers classes LlamaConfig, MistralConfig, Qwen2Config and Gemma3TextConfig. The sliding
// windows of Mistral and Qwen are left out: checkpoints without a window set it to null, and GGUF readers assume that
// there is none.
constexpr std::array kUsual = {
    Usual{"llama", R"({"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,)"
                   R"("max_position_embeddings":2048,"rms_norm_eps":1e-6,"rope_theta":10000})"},
    Usual{"mistral",
          R"({"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,)"
          R"("num_key_value_heads":8,"max_position_embeddings":131072,"rms_norm_eps":1e-6,"rope_theta":10000})"},
    Usual{"qwen2",
          R"({"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,"num_attention_heads":32,)"
          R"("num_key_value_heads":32,"max_position_embeddings":32768,"rms_norm_eps":1e-6,"rope_theta":10000})"},
    Usual{"gemma3_text",
          R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,"num_attention_heads":8,)"
          R"("num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,"rms_norm_eps":1e-6,)"
          R"("query_pre_attn_scalar":256,"sliding_window":4096,"rope_theta":1000000,"rope_local_base_freq":10000})"},
};

// Parsed once and kept until the process exits, because returned values point into the documents.
struct Parsed {
  std::array<json::Document, kUsual.size()> documents;
  std::array<json::Id, kUsual.size()> roots{};
  Parsed() {
    std::string error;
    for (size_t i = 0; i < kUsual.size(); ++i) documents[i].parse(kUsual[i].settings, roots[i], error);
  }
};

}  // namespace

std::string_view usual_text_type(std::string_view around) {
  if (around == "Gemma3ForConditionalGeneration") return "gemma3_text";
  if (around == "Mistral3ForConditionalGeneration") return "mistral";
  if (around == "InternVLForConditionalGeneration") return "qwen2";
  if (around == "Lfm2VlForConditionalGeneration") return "lfm2";
  for (const std::string_view name : {"LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration",
                                      "Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"})
    if (around == name) return "llama";
  return {};
}

JsonValue text_defaults(const JsonValue& config) {
  static const Parsed parsed;
  const JsonValue text = config["text_config"];
  if (!text.is_object()) return {};
  const JsonValue stated = text["model_type"], classes = config["architectures"];
  const std::string_view type = stated.exists()           ? stated.text()
                                : classes.items().empty() ? std::string_view()
                                                          : usual_text_type(classes.item(0).text());
  for (size_t i = 0; i < kUsual.size(); ++i)
    if (kUsual[i].type == type) return JsonValue(&parsed.documents[i], parsed.roots[i], "config.json", "text_config");
  return {};
}

}  // namespace monolith::hf
