#include "support/hf_folder.h"

namespace monolith::testing {

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "monolith-hf-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchFolder::write(const std::string& name, std::string_view text) const {
  std::ofstream(path_ + "/" + name, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string safetensors_of(const std::vector<SafetensorData>& tensors) {
  std::string head = "{\"__metadata__\":{\"format\":\"pt\"}", data;
  for (const SafetensorData& tensor : tensors) {
    head += "," + json_text(tensor.name) + ":{\"dtype\":" + json_text(tensor.type) + ",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) head += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    head += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += tensor.bytes;
    head += std::to_string(data.size()) + "]}";
  }
  head += "}";
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t size = head.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + head + data;
}

std::string checkpoint_name(std::string_view gguf) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"token_embd", "model.embed_tokens"},
      {"output_norm", "model.norm"},
      {"output", "lm_head"},
      {"attn_norm", "input_layernorm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"ffn_norm", "post_attention_layernorm"},
      {"post_attention_norm", "post_attention_layernorm"},
      {"post_ffw_norm", "post_feedforward_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  std::string prefix;
  if (gguf.starts_with("blk.")) {
    const size_t dot = gguf.find('.', 4);
    prefix = "model.layers." + std::string(gguf.substr(4, dot - 4)) + ".";
    gguf.remove_prefix(dot + 1);
  }
  const size_t dot = gguf.rfind('.');
  const auto found = kNames.find(gguf.substr(0, dot));
  return found == kNames.end() ? std::string(gguf) : prefix + found->second + std::string(gguf.substr(dot));
}

std::string with_halves(std::string_view rows, int64_t heads, int64_t n_rows) {
  const size_t row = rows.size() / static_cast<size_t>(n_rows);
  const int64_t width = n_rows / heads;
  std::string out(rows.size(), '\0');
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < width; ++i) {
      const int64_t to = h * width + (i % 2) * (width / 2) + i / 2;
      std::memcpy(out.data() + static_cast<size_t>(to) * row, rows.data() + static_cast<size_t>(h * width + i) * row,
                  row);
    }
  return out;
}

uint64_t stated(const GgufFile& file, const std::string& key) {
  const auto value = file.unsigned_integer(key);
  return value ? value->value_or(0) : 0;
}

std::vector<SafetensorData> checkpoint_of(const GgufFile& file, const std::string& architecture) {
  const bool interleaved = architecture == "llama";
  std::vector<SafetensorData> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;
    SafetensorData out;
    out.name = checkpoint_name(tensor.name);
    if (architecture == "gemma3" && tensor.name.ends_with(".ffn_norm.weight"))
      out.name.replace(out.name.find("post_attention"), 14, "pre_feedforward");
    out.type = traits_of(tensor.type).name;
    for (int i = tensor.n_dims; i-- > 0;) out.shape.push_back(tensor.shape[static_cast<size_t>(i)]);
    out.bytes.assign(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    const bool is_q = tensor.name.find(".attn_q.") != std::string_view::npos;
    if (interleaved && (is_q || tensor.name.find(".attn_k.") != std::string_view::npos))
      out.bytes = with_halves(out.bytes,
                              static_cast<int64_t>(stated(
                                  file, architecture + (is_q ? ".attention.head_count" : ".attention.head_count_kv"))),
                              out.shape[0]);
    tensors.push_back(std::move(out));
  }
  return tensors;
}

std::string config_of(const GgufFile& file, const std::string& name, const std::string& architecture,
                      const std::string& more) {
  const auto number = [&](const char* key) { return std::to_string(stated(file, architecture + "." + key)); };
  const auto real = [&](const char* key, double fallback) {
    const auto value = file.number(architecture + "." + key);
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value ? value->value_or(fallback) : fallback);
    return std::string(text);
  };
  std::string out = "{\"architectures\":[" + json_text(name) + "],\"hidden_act\":\"silu\"";
  out += ",\"hidden_size\":" + number("embedding_length") + ",\"num_hidden_layers\":" + number("block_count");
  out += ",\"num_attention_heads\":" + number("attention.head_count");
  out += ",\"num_key_value_heads\":" + number("attention.head_count_kv");
  out += ",\"intermediate_size\":" + number("feed_forward_length");
  out += ",\"max_position_embeddings\":" + number("context_length");
  if (stated(file, architecture + ".attention.key_length") > 0)
    out += ",\"head_dim\":" + number("attention.key_length");
  out += ",\"rms_norm_eps\":" + real("attention.layer_norm_rms_epsilon", 1e-5);
  out += ",\"rope_theta\":" + real("rope.freq_base", 10000);
  out += std::string(",\"tie_word_embeddings\":") + (file.tensor("output.weight") == nullptr ? "true" : "false");
  return out + more + "}";
}

std::string tokenizer_of(const GgufFile& file, const std::string& splitting, bool add_bos) {
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const auto kinds = file.integers("tokenizer.ggml.token_type");
  const bool byte_level = *file.string("tokenizer.ggml.model").value() == "gpt2";
  std::string vocabulary, added, merges;
  std::map<std::string, size_t, std::less<>> ids;
  for (size_t i = 0; i < (*tokens)->size(); ++i) {
    const std::string_view text = (**tokens)[i];
    const int64_t kind = (**kinds)[i];
    if (kind == 3 || kind == 4 || kind == 2)
      added += (added.empty() ? "" : ",") + std::string("{\"id\":") + std::to_string(i) +
               ",\"content\":" + json_text(text) + ",\"special\":" + (kind == 4 ? "false" : "true") + "}";
    vocabulary += (vocabulary.empty() ? "" : ",") + json_text(text) + ":" + std::to_string(i);
    if (kind == 1) ids.emplace(text, i);
  }
  if (const auto listed = file.strings("tokenizer.ggml.merges"); listed && *listed) {
    for (const std::string_view merge : **listed) merges += (merges.empty() ? "" : ",") + json_text(merge);
  } else {
    const auto scores = file.numbers("tokenizer.ggml.scores");
    std::vector<std::pair<float, std::string>> pairs;
    for (const auto& [text, id] : ids)
      for (size_t cut = 1; cut < text.size(); ++cut) {
        const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
        if (left == ids.end() || right == ids.end()) continue;
        pairs.push_back({-(**scores)[id], "[" + json_text(left->first) + "," + json_text(right->first) + "]"});
      }
    std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [score, pair] : pairs) merges += (merges.empty() ? "" : ",") + pair;
  }
  const auto bos = stated(file, "tokenizer.ggml.bos_token_id");
  const std::string bos_text = json_text((**tokens)[bos]);
  std::string out = "{\"version\":\"1.0\",\"added_tokens\":[" + added + "],";
  if (byte_level) {
    out +=
        "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" + splitting +
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" + (splitting.empty() ? "true" : "false") +
        "}]},\"decoder\":{\"type\":\"ByteLevel\"},";
  } else {
    out +=
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"▁\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}]},\"pre_tokenizer\":null,";
  }
  out += "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[";
  if (add_bos) out += "{\"SpecialToken\":{\"id\":" + bos_text + ",\"type_id\":0}},";
  out += "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]},";
  return out + "\"model\":{\"type\":\"BPE\",\"byte_fallback\":" + (byte_level ? "false" : "true") +
         ",\"unk_token\":null,\"vocab\":{" + vocabulary + "},\"merges\":[" + merges + "]}}";
}

std::string tokenizer_settings_of(const GgufFile& file) {
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const auto name = [&](const char* key) { return json_text((**tokens)[stated(file, key)]); };
  return "{\"bos_token\":" + name("tokenizer.ggml.bos_token_id") +
         ",\"eos_token\":{\"content\":" + name("tokenizer.ggml.eos_token_id") +
         "},\"chat_template\":\"{{ messages[0].content }}\"}";
}

}  // namespace monolith::testing
