#include "formats/hf/tensors.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "formats/gguf/parser.h"

namespace monolith::hf {
namespace {

Error invalid(const Safetensor& tensor, const std::string& what) {
  return {ErrorCode::kInvalidFile, "tensor " + quoted(tensor.name) + " " + what};
}

std::optional<TensorType> type_of(std::string_view name) {
  if (name == "F32") return TensorType::kF32;
  if (name == "F16") return TensorType::kF16;
  if (name == "BF16") return TensorType::kBF16;
  return std::nullopt;
}

// Parts of images and sound, which the text model does without, and of guessing tokens; and frequencies, which are
// derived.
bool is_left_out(std::string_view name) {
  for (const std::string_view part : {"vision_tower.", "vision_model.", "visual.", "audio_tower.",
                                      "multi_modal_projector.", "embed_vision.", "embed_audio.",
                                      "model.mtp_"})
    if (name.find(part) != std::string_view::npos) return true;
  return name.ends_with(".rotary_emb.inv_freq");
}

// "N." at the front of `rest`, taken off; -1 if there is none.
int64_t take_number(std::string_view& rest) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const size_t size = static_cast<size_t>(end - rest.data());
  if (error != std::errc() || number < 0 || size >= rest.size() || rest[size] != '.') return -1;
  rest.remove_prefix(size + 1);
  return number;
}

struct Name {
  std::string_view hf, gguf;
};

constexpr Name kOfModel[] = {
    {"embed_tokens", "token_embd"}, {"norm", "output_norm"},
    {"embed_tokens_per_layer", "per_layer_token_embd"},        // Gemma 4
    {"per_layer_model_projection", "per_layer_model_proj"},
    {"per_layer_projection_norm", "per_layer_proj_norm"},
    {"wte", "token_embd"},          {"ln_f", "output_norm"},   // Exaone
    {"tok_embeddings", "token_embd"},                          // InternLM 2
    {"word_embeddings", "token_embd"},                         // Ling
};

// Of the whole, without the prefix.
constexpr std::string_view kOutputs[] = {"lm_head.weight", "output.weight"};

// Within a layer. What post_attention_layernorm is decides its architecture: see layer_name().
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
    // Ling
    {"attention.dense", "attn_output"},
    {"attention.query_layernorm", "attn_q_norm"},
    {"attention.key_layernorm", "attn_k_norm"},
    // Gemma 4
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {"router.proj", "ffn_gate_inp"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
    // Exaone
    {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},
    {"attn.attention.q_proj", "attn_q"},
    {"attn.attention.k_proj", "attn_k"},
    {"attn.attention.v_proj", "attn_v"},
    {"attn.attention.out_proj", "attn_output"},
    {"mlp.c_fc_0", "ffn_gate"},
    {"mlp.c_fc_1", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    // InternLM 2
    {"attention_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"attention.wo", "attn_output"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},
};

// Of one expert: joined with those of the others.
constexpr Name kOfExpert[] = {
    {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"},
    {"w1", "ffn_gate_exps"},        {"w3", "ffn_up_exps"},      {"w2", "ffn_down_exps"},
};

// Whole names within a layer, without a suffix.
constexpr Name kPlainOfLayer[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"layer_scalar", "layer_output_scale.weight"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.down_proj", "ffn_down_exps.weight"},
};

// What is added to the scores of experts for the choice among them: a vector of one value for each.
constexpr std::string_view kChoiceBiases[] = {"mlp.gate.e_score_correction_bias", "mlp.gate.expert_bias",
                                              "mlp.moe_statics.e_score_correction_bias"};

// Gate and up of all experts, or of the one that all rows pass, in one matrix: [..., 2 * width, embedding].
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

class Translator {
 public:
  Translator(const Config& config, AssembledFile& file) : config_(config), file_(file) {}

  Status add(const Safetensor& tensor) {
    if (is_left_out(tensor.name)) return {};
    if (tensor.type == "U8" && config_.architecture->gguf == "gpt-oss") return add_packed(tensor);
    const auto type = type_of(tensor.type);
    if (!type)
      return Error{ErrorCode::kUnsupported, "tensor " + quoted(tensor.name) + " has type " + quoted(tensor.type) +
                                                ", which is not read (known: F32, F16, BF16)"};
    if (tensor.shape.empty() || tensor.shape.size() > 4)
      return invalid(tensor, "has " + std::to_string(tensor.shape.size()) + " dimensions; 1 to 4 are read");
    if (std::ranges::any_of(tensor.shape, [](int64_t length) { return length < 1; }))
      return invalid(tensor, "has a length of 0");

    std::string_view rest = tensor.name;
    for (const std::string_view prefix :
         {"model.language_model.", "language_model.model.", "model.", "transformer.", "ernie."}) {
      if (!rest.starts_with(prefix)) continue;
      rest.remove_prefix(prefix.size());
      break;
    }
    if (rest.starts_with("language_model.")) rest.remove_prefix(std::string_view("language_model.").size());
    if (std::ranges::find(kOutputs, rest) != std::end(kOutputs)) {
      // A copy of the embedding table that some savers write out.
      return config_.tied ? Status() : put("output.weight", tensor, *type);
    }
    for (const std::string_view layers : {"layers.", "h."}) {
      if (!rest.starts_with(layers)) continue;
      std::string_view inner = rest.substr(layers.size());
      const int64_t layer = take_number(inner);
      if (layer >= 0) return add_of_layer(layer, inner, tensor, *type);
    }
    const auto [stem, suffix] = split(rest);
    const std::string_view name = find(kOfModel, stem);
    if (name.empty()) return put(tensor.name, tensor, *type);
    if (name == "token_embd" && suffix == ".weight" && tensor.shape.size() == 2) table_rows_ = tensor.shape[0];
    return put(std::string(name) + std::string(suffix), tensor, *type);
  }

  Result<int64_t> finish() {
    for (auto& [name, experts] : experts_) {
      std::vector<int64_t> shape = experts.shape;
      const size_t n = experts.parts.size();
      if (static_cast<int64_t>(n) != config_.experts || experts.parts.rbegin()->first != config_.experts - 1)
        return Error{ErrorCode::kInvalidFile, "tensor '" + name + "' is of " + std::to_string(n) +
                                                  " experts, but there are " + std::to_string(config_.experts)};
      TensorSource source{.type = experts.type, .cols = shape[0]};
      for (const auto& [number, data] : experts.parts) source.parts.push_back(data);
      shape.push_back(static_cast<int64_t>(n));
      file_.tensor(name, shape, experts.type, std::move(source));
    }
    for (const auto& [name, packed] : packed_)
      if (Status status = put_packed(name, packed); !status) return status.error();
    if (table_rows_ == 0)
      return Error{ErrorCode::kInvalidFile, "no tensor is the embedding table ('model.embed_tokens.weight')"};
    return table_rows_;
  }

 private:
  struct Experts {
    TensorType type;
    std::vector<int64_t> shape;   // of one
    std::map<int64_t, std::span<const std::byte>> parts;
  };

  // "norm.weight" is "norm" and ".weight"; a name without either suffix has none.
  static std::pair<std::string_view, std::string_view> split(std::string_view name) {
    for (const std::string_view suffix : {".weight", ".bias"})
      if (name.ends_with(suffix)) return {name.substr(0, name.size() - suffix.size()), suffix};
    return {name, {}};
  }

  std::string_view layer_name(std::string_view stem) const {
    if (stem == "post_attention_layernorm") return config_.architecture->second_norm;
    return find(kOfLayer, stem);
  }

  Status add_of_layer(int64_t layer, std::string_view rest, const Safetensor& tensor, TensorType type) {
    if (config_.architecture->guess_layers && layer >= config_.layers) return {};
    const std::string block = "blk." + std::to_string(layer) + ".";
    if (std::ranges::find(kChoiceBiases, rest) != std::end(kChoiceBiases)) {
      int64_t count = 1;
      for (const int64_t length : tensor.shape) count *= length;
      return put_parts(block + "exp_probs_b.bias", {count}, {tensor.data}, tensor, type);
    }
    if (const std::string_view plain = find(kPlainOfLayer, rest); !plain.empty())
      return put(block + std::string(plain), tensor, type);
    if (config_.architecture->gguf == "gpt-oss" && rest.starts_with("mlp.experts."))
      return add_expert_bias(block, rest, tensor, type);
    const auto [stem, suffix] = split(rest);
    for (const std::string_view prefix : {"mlp.experts.", "block_sparse_moe.experts."}) {
      if (!stem.starts_with(prefix)) continue;
      std::string_view inner = stem.substr(prefix.size());
      const int64_t expert = take_number(inner);
      const std::string_view name = find(kOfExpert, inner);
      if (expert >= 0 && !name.empty())
        return add_expert(block + std::string(name) + std::string(suffix), expert, tensor, type);
    }
    if (const std::string_view kind = find(kFused, stem); !kind.empty())
      return add_fused(block, std::string(kind), tensor, type);
    if (stem == "attention.wqkv") return add_grouped(block, suffix, tensor, type);
    if (stem == "attention.query_key_value") return add_joined(block, suffix, tensor, type);
    if (stem == "mlp.experts.down_proj") return put(block + "ffn_down_exps.weight", tensor, type);
    const std::string_view name = layer_name(stem);
    if (name.empty() || suffix.empty()) return put(tensor.name, tensor, type);
    return put(block + std::string(name) + std::string(suffix), tensor, type);
  }

  Status add_expert(const std::string& name, int64_t expert, const Safetensor& tensor, TensorType type) {
    std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    if (shape.size() != 2) return invalid(tensor, "is no matrix");
    const auto [found, is_new] = experts_.try_emplace(name, Experts{type, shape, {}});
    Experts& experts = found->second;
    if (experts.type != type || experts.shape != shape)
      return invalid(tensor, "is of another type or shape than that of another expert");
    if (!experts.parts.emplace(expert, tensor.data).second) return invalid(tensor, "occurs twice");
    return {};
  }

  // gpt-oss: [experts, rows, blocks, 16] and [experts, rows, blocks] of one tensor come in any order.
  Status add_packed(const Safetensor& tensor) {
    for (const std::string_view part : {"_blocks", "_scales"}) {
      if (!tensor.name.ends_with(part)) continue;
      Packed& packed = packed_[tensor.name.substr(0, tensor.name.size() - part.size())];
      (part == "_blocks" ? packed.numbers : packed.scales) = &tensor;
      return {};
    }
    return Error{ErrorCode::kUnsupported, "tensor " + quoted(tensor.name) + " has type 'U8', which is not read"};
  }

  struct Packed {
    const Safetensor* numbers = nullptr;
    const Safetensor* scales = nullptr;
  };

  Status put_packed(const std::string& name, const Packed& packed) {
    const auto& [numbers, scales] = packed;
    if (numbers == nullptr || scales == nullptr)
      return Error{ErrorCode::kInvalidFile, "tensor " + quoted(name + (numbers == nullptr ? "_blocks" : "_scales")) +
                                                " is missing"};
    const std::vector<int64_t>& shape = scales->shape;
    std::vector<int64_t> expected = shape;
    expected.push_back(16);
    std::string_view inner = name;
    int64_t layer = -1;
    if (constexpr std::string_view kLayers = "model.layers."; inner.starts_with(kLayers)) {
      inner.remove_prefix(kLayers.size());
      layer = take_number(inner);
    }
    const bool gate_and_up = inner == "mlp.experts.gate_up_proj";
    if (layer < 0 || (!gate_and_up && inner != "mlp.experts.down_proj"))
      return Error{ErrorCode::kUnsupported, "tensor " + quoted(numbers->name) + " has no place in a model as gpt-oss"};
    const bool right = shape.size() == 3 && numbers->shape == expected &&
                       std::ranges::all_of(shape, [](int64_t length) { return length >= 1; }) &&
                       (!gate_and_up || shape[1] % 2 == 0);
    if (!right)
      return invalid(*numbers, "and its '_scales' are not [experts, rows, blocks, 16] and [experts, rows, blocks]");
    const std::string block = "blk." + std::to_string(layer) + ".";
    TensorSource source{
        .type = TensorType::kMXFP4, .cols = shape[2] * 32, .parts = {numbers->data}, .scales = scales->data};
    if (!gate_and_up) {
      file_.tensor(block + "ffn_down_exps.weight", {source.cols, shape[1], shape[0]}, source.type, source);
      return {};
    }
    source.row_step = 2;   // a row of the gate, one of the other, and so on
    for (const char* which : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) {
      file_.tensor(block + which, {source.cols, shape[1] / 2, shape[0]}, source.type, source);
      source.first_row = 1;
    }
    return {};
  }

  // [experts, rows]; gate and up in turns.
  Status add_expert_bias(const std::string& block, std::string_view rest, const Safetensor& tensor, TensorType type) {
    const std::vector<int64_t>& shape = tensor.shape;
    if (shape.size() == 2 && rest == "mlp.experts.down_proj_bias")
      return put(block + "ffn_down_exps.bias", tensor, type);
    if (shape.size() != 2 || shape[1] % 2 != 0 || rest != "mlp.experts.gate_up_proj_bias")
      return Error{ErrorCode::kUnsupported,
                   "tensor " + quoted(tensor.name) +
                       " is not translated: experts are read in MXFP4 ('_blocks' and '_scales')"};
    TensorSource source{.type = type, .cols = 1, .parts = {tensor.data}, .row_step = 2};
    for (const char* which : {"ffn_gate_exps.bias", "ffn_up_exps.bias"}) {
      file_.tensor(block + which, {shape[1] / 2, shape[0]}, type, source);
      source.first_row = 1;
    }
    return {};
  }

  // [experts..., 2 * width, embedding]: the upper half of each is the gate.
  Status add_fused(const std::string& block, const std::string& kind, const Safetensor& tensor, TensorType type) {
    std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    const size_t dimensions = kind == "exps" ? 3 : 2;
    if (shape.size() != dimensions || shape[1] % 2 != 0)
      return invalid(tensor, "does not hold gate and up, one below the other");
    const int64_t count = dimensions == 3 ? shape[2] : 1;
    shape[1] /= 2;
    const size_t half = tensor.data.size() / static_cast<size_t>(count) / 2;
    for (const size_t which : {size_t{0}, size_t{1}}) {
      TensorSource source{.type = type, .cols = shape[0]};
      for (int64_t i = 0; i < count; ++i)
        source.parts.push_back(tensor.data.subspan((static_cast<size_t>(i) * 2 + which) * half, half));
      file_.tensor(block + (which == 0 ? "ffn_gate_" : "ffn_up_") + kind + ".weight", shape, type, std::move(source));
    }
    return {};
  }

  // Queries, key and value head by head: of every key head its query heads, then itself, then its value.
  Status add_grouped(const std::string& block, std::string_view suffix, const Safetensor& tensor, TensorType type) {
    const int64_t rows = tensor.shape[0], groups = config_.kv_heads;
    const int64_t queries = groups > 0 ? config_.heads / groups : 0;
    if (tensor.shape.size() > 2 || groups < 1 || config_.heads % groups != 0 || rows % (groups * (queries + 2)) != 0)
      return invalid(tensor, "does not hold " + std::to_string(config_.heads) + " heads of queries and " +
                                 std::to_string(groups) + " of keys and of values");
    const int64_t width = rows / (groups * (queries + 2));
    const size_t head_bytes = tensor.data.size() / static_cast<size_t>(rows) * static_cast<size_t>(width);
    const auto add_part = [&](const char* name, int64_t first, int64_t heads) {
      std::vector<std::span<const std::byte>> parts;
      for (int64_t group = 0; group < groups; ++group)
        parts.push_back(tensor.data.subspan(static_cast<size_t>(group * (queries + 2) + first) * head_bytes,
                                            static_cast<size_t>(heads) * head_bytes));
      std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
      shape.back() = groups * heads * width;
      return put_parts(block + name + std::string(suffix), shape, std::move(parts), tensor, type);
    };
    if (Status status = add_part("attn_q", 0, queries); !status) return status;
    if (Status status = add_part("attn_k", queries, 1); !status) return status;
    return add_part("attn_v", queries + 1, 1);
  }

  // All heads of queries, then all of keys, then all of values; apart where their rows take another order.
  Status add_joined(const std::string& block, std::string_view suffix, const Safetensor& tensor, TensorType type) {
    if (!config_.architecture->interleaves_heads) return put(block + "attn_qkv" + std::string(suffix), tensor, type);
    const int64_t rows = tensor.shape[0], heads = config_.heads + 2 * config_.kv_heads;
    if (tensor.shape.size() > 2 || heads < 1 || rows % heads != 0)
      return invalid(tensor, "does not hold " + std::to_string(config_.heads) + " heads of queries and " +
                                 std::to_string(config_.kv_heads) + " of keys and of values");
    const size_t head_bytes = tensor.data.size() / static_cast<size_t>(heads);
    size_t at = 0;
    for (const auto& [name, count] :
         {std::pair{"attn_q", config_.heads}, std::pair{"attn_k", config_.kv_heads},
          std::pair{"attn_v", config_.kv_heads}}) {
      std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
      shape.back() = rows / heads * count;
      const size_t bytes = head_bytes * static_cast<size_t>(count);
      Status status =
          put_parts(block + name + std::string(suffix), shape, {tensor.data.subspan(at, bytes)}, tensor, type);
      if (!status) return status;
      at += bytes;
    }
    return {};
  }

  Status put(const std::string& name, const Safetensor& tensor, TensorType type) {
    return put_parts(name, {tensor.shape.rbegin(), tensor.shape.rend()}, {tensor.data}, tensor, type);
  }

  // `parts`, one below the other, as the tensor `name` of `shape`: the row length first.
  Status put_parts(const std::string& name, const std::vector<int64_t>& shape,
                   std::vector<std::span<const std::byte>> parts, const Safetensor& tensor, TensorType type) {
    const bool is_vector = shape.size() == 1;
    TensorSource source{.type = type, .cols = shape[0], .parts = std::move(parts)};
    const bool is_q = name.find(".attn_q.") != std::string::npos, is_k = name.find(".attn_k.") != std::string::npos;
    if (config_.architecture->interleaves_heads && (is_q || is_k)) {
      source.interleaved_heads = is_q ? config_.heads : config_.kv_heads;
      if (is_vector) source.cols = 1;
      const int64_t rows = source.rows();
      if (source.interleaved_heads < 1 || rows % source.interleaved_heads != 0 ||
          rows / source.interleaved_heads % 2 != 0)
        return invalid(tensor, "has " + std::to_string(rows) + " rows, which are not " +
                                   std::to_string(source.interleaved_heads) + " heads of even width");
    }
    if (config_.architecture->norms_from_one && name.ends_with("norm.weight")) source.added = 1;
    if (source.parts.size() == 1 && source.interleaved_heads == 0 && source.added == 0) {
      file_.tensor(name, shape, type, source.parts[0]);
      return {};
    }
    if (is_vector && source.parts.size() > 1) source.cols = 1;
    file_.tensor(name, shape, source.added != 0 ? TensorType::kF32 : type, std::move(source));
    return {};
  }

  const Config& config_;
  AssembledFile& file_;
  std::map<std::string, Experts> experts_;
  std::map<std::string, Packed> packed_;
  int64_t table_rows_ = 0;
};

}  // namespace

Result<int64_t> translate_tensors(const std::vector<Safetensor>& tensors, const Config& config, AssembledFile& file) {
  Translator translator(config, file);
  for (const Safetensor& tensor : tensors)
    if (Status status = translator.add(tensor); !status) return status.error();
  return translator.finish();
}

}  // namespace monolith::hf
