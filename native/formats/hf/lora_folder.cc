#include "formats/hf/lora_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "formats/gguf/gguf.h"
#include "formats/gguf/parser.h"
#include "formats/hf/architecture.h"
#include "formats/hf/json_file.h"
#include "formats/hf/safetensors.h"
#include "formats/hf/tensor_names.h"

namespace monolith::hf {
namespace {

constexpr const char* kConfigName = "adapter_config.json";
constexpr const char* kTensorsName = "adapter_model.safetensors";

// Keys of adapter_config.json that select unsupported features. They must be absent, null, false or empty.
constexpr std::string_view kUnsupportedKeys[] = {"use_dora",          "modules_to_save",         "lora_bias",
                                                 "fan_in_fan_out",    "layer_replication",       "use_qalora",
                                                 "target_parameters", "trainable_token_indices", "use_bdlora",
                                                 "arrow_config",      "alora_invocation_tokens"};

struct Settings {
  double alpha = 0;
  bool is_rank_stabilized = false;                     // use_rslora: the scale is alpha / sqrt(rank).
  std::vector<std::pair<std::string, double>> alphas;  // alpha_pattern, in the order of the file.
};

bool is_empty(const JsonValue& value) {
  using Kind = json::Document::Kind;
  if (!value.exists()) return true;
  if (value.is(Kind::kArray)) return value.items().empty();
  if (value.is(Kind::kObject)) return value.members().empty();
  const auto flag = value.boolean();
  return flag && *flag == false;
}

// Rejects adapters initialized with PiSSA, OLoRA, CorDA or LoftQ. These methods also change the weights of the base
// model, so their factors produce wrong results with the original weights.
Status check_initialization(const JsonValue& value) {
  using Kind = json::Document::Kind;
  if (!value.exists() || value.is(Kind::kTrue) || value.is(Kind::kFalse)) return {};
  if (!value.is_string()) return value.unsupported("must be a boolean or a string");
  std::string method(value.text());
  std::ranges::transform(method, method.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  if (method == "gaussian" || method == "eva" || method == "orthogonal") return {};
  return value.unsupported("is " + in_quotes(value.text()) +
                           ", which changes the base model; convert the adapter to a plain LoRA adapter with PEFT");
}

Result<Settings> read_settings(const JsonValue& config) {
  if (!config.is_object()) return Error{ErrorCode::kInvalidFile, std::string(kConfigName) + " must be an object"};
  if (const JsonValue type = config["peft_type"]; type.text() != "LORA")
    return type.unsupported(type.exists() ? "must be \"LORA\"" : "is missing");
  for (const std::string_view key : kUnsupportedKeys)
    if (!is_empty(config[key])) return config[key].unsupported("is not supported");
  if (const JsonValue bias = config["bias"]; bias.exists() && bias.text() != "none")
    return bias.unsupported("must be \"none\": adapters with biases are not supported");
  if (Status status = check_initialization(config["init_lora_weights"]); !status) return status.error();
  Settings settings;
  const auto alpha = config["lora_alpha"].number();
  if (!alpha) return alpha.error();
  if (!*alpha) return config["lora_alpha"].invalid("is missing");
  settings.alpha = **alpha;
  const auto stabilized = config["use_rslora"].boolean();
  if (!stabilized) return stabilized.error();
  settings.is_rank_stabilized = stabilized->value_or(false);
  const JsonValue pattern = config["alpha_pattern"];
  if (pattern.exists() && !pattern.is_object()) return pattern.invalid("must be an object");
  for (const auto& [key, id] : pattern.members()) {
    const JsonValue value = pattern.at(id, key);
    if (key.find_first_of("*+?()[]{}|^$\\") != std::string::npos)
      return value.unsupported("is a regular expression; only names of modules are supported");
    const auto number = value.number();
    if (!number) return number.error();
    settings.alphas.emplace_back(key, number->value_or(0.0));
  }
  return settings;
}

// Returns the alpha of a module. As in PEFT, the first pattern that matches applies. A pattern matches if it is the
// module's name or the part of the name after one of its dots.
double alpha_of(const Settings& settings, std::string_view module) {
  for (const auto& [name, alpha] : settings.alphas)
    if (module == name || (module.ends_with(name) && module[module.size() - name.size() - 1] == '.')) return alpha;
  return settings.alpha;
}

Error bad_factor(const Safetensor& tensor, const std::string& what) {
  return {ErrorCode::kInvalidFile, std::string(kTensorsName) + ": tensor " + in_quotes(tensor.name) + " " + what};
}
Error refused_factor(const Safetensor& tensor, const std::string& what) {
  return {ErrorCode::kUnsupported, std::string(kTensorsName) + ": tensor " + in_quotes(tensor.name) + " " + what};
}

Result<TensorType> factor_type(const Safetensor& tensor) {
  if (tensor.type == "F32") return TensorType::kF32;
  if (tensor.type == "F16") return TensorType::kF16;
  if (tensor.type == "BF16") return TensorType::kBF16;
  return refused_factor(tensor, "has type " + in_quotes(tensor.type) + "; LoRA tensors must be F32, F16 or BF16");
}

// Whether GGUF files of this architecture interleave the rows of query and key heads, while Hugging Face checkpoints do
// not. Several entries of architectures() may have the same GGUF name, because a hybrid model may share its name with a
// plain transformer.
Result<bool> interleaves_heads(const std::string& architecture) {
  std::optional<bool> interleaves;
  bool is_plain = false, is_unique = true;
  for (const Architecture& known : architectures()) {
    if (known.gguf != architecture) continue;
    is_plain = is_plain || known.family == Family::kPlain;
    is_unique = is_unique && interleaves.value_or(known.interleaves_heads) == known.interleaves_heads;
    interleaves = known.interleaves_heads;
  }
  if (is_plain && is_unique) return *interleaves;
  return Error{ErrorCode::kUnsupported, "PEFT folders are not supported for models of architecture " +
                                            in_quotes(architecture) + "; convert the adapter to GGUF"};
}

struct Module {
  std::string name;    // Name in the checkpoint, such as "model.layers.0.self_attn.q_proj".
  std::string target;  // Name in GGUF, such as "blk.0.attn_q.weight".
  std::string_view kind;
  int layer = 0;
  bool is_a = false;
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}
bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

Error not_a_factor(const Safetensor& tensor) {
  return refused_factor(tensor, "is not a factor of a weight matrix (lora_A.weight or lora_B.weight)");
}

Result<Module> module_of(const Safetensor& tensor, size_t n_layers) {
  Module module;
  std::string_view name = tensor.name;
  if (!take_suffix(name, ".default.weight") && !take_suffix(name, ".weight")) return not_a_factor(tensor);
  module.is_a = take_suffix(name, ".lora_A");
  if (!module.is_a && !take_suffix(name, ".lora_B")) return not_a_factor(tensor);
  take_prefix(name, "base_model.model.");
  module.name = name;
  if (is_left_out(name)) return refused_factor(tensor, "adapts a module outside the text model");
  name = without_model_prefix(name);
  for (const std::string_view layers : {"layers.", "h."}) {
    std::string_view rest = name;
    if (!take_prefix(rest, layers)) continue;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), module.layer);
    if (error != std::errc() || end == rest.data() + rest.size() || *end != '.') continue;
    if (module.layer < 0 || static_cast<size_t>(module.layer) >= n_layers)
      return bad_factor(tensor, "is of layer " + std::to_string(module.layer) + ", but the model has " +
                                    std::to_string(n_layers) + " layers");
    rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
    module.kind = name_of_layer(rest);
    break;
  }
  if (module.kind.empty()) return refused_factor(tensor, "adapts a module that is unknown or not supported");
  module.target = "blk." + std::to_string(module.layer) + "." + std::string(module.kind) + ".weight";
  return module;
}

Status check_shape(const Safetensor& tensor) {
  if (tensor.shape.size() != 2) return refused_factor(tensor, "does not have two dimensions");
  for (const int64_t n : tensor.shape)
    if (n < 1 || n > kMaxLoraDimension) return bad_factor(tensor, "has an impossible shape");
  return {};
}

Status check_heads(const LoraPair& pair, const Safetensor& b) {
  if (pair.heads >= 1 && pair.rows % pair.heads == 0 && pair.rows / pair.heads % 2 == 0) return {};
  return bad_factor(b, "has " + std::to_string(pair.rows) + " rows, which are not " + std::to_string(pair.heads) +
                           " heads of even size");
}

struct Found {
  Module module;
  const Safetensor* a = nullptr;
  const Safetensor* b = nullptr;
};

Result<LoraPair> make_pair_of(const Found& found, const Settings& settings, bool interleaves, const LoraBase& base) {
  const Safetensor& one = found.a != nullptr ? *found.a : *found.b;
  if (found.a == nullptr || found.b == nullptr)
    return bad_factor(one, found.a == nullptr ? "has no lora_A" : "has no lora_B");
  for (const Safetensor* tensor : {found.a, found.b})
    if (Status status = check_shape(*tensor); !status) return status.error();
  const auto a_type = factor_type(*found.a), b_type = factor_type(*found.b);
  if (!a_type) return a_type.error();
  if (!b_type) return b_type.error();
  LoraPair pair;
  pair.target = found.module.target;
  if (found.b->shape[1] != found.a->shape[0])
    return bad_factor(*found.b, "has rank " + std::to_string(found.b->shape[1]) + ", but its lora_A has rank " +
                                    std::to_string(found.a->shape[0]));
  pair.rank = static_cast<int>(std::min<int64_t>(found.a->shape[0], INT32_MAX));
  pair.cols = found.a->shape[1];
  pair.rows = found.b->shape[0];
  pair.a = {found.a->name, *a_type, found.a->data};
  pair.b = {found.b->name, *b_type, found.b->data};
  const double rank = pair.rank;
  pair.factor = static_cast<float>(alpha_of(settings, found.module.name) /
                                   (settings.is_rank_stabilized ? std::sqrt(rank) : rank));
  if (!std::isfinite(pair.factor)) return Error{ErrorCode::kInvalidFile, "'lora_alpha' is not a finite number"};
  if (!interleaves) return pair;
  if (found.module.kind == "attn_qkv") return refused_factor(one, "adapts a fused matrix whose rows must be reordered");
  const auto layer = static_cast<size_t>(found.module.layer);
  const bool is_q = found.module.kind == "attn_q";
  if (!is_q && found.module.kind != "attn_k") return pair;
  pair.heads = is_q ? base.n_heads[layer] : base.n_kv_heads[layer];
  if (Status status = check_heads(pair, *found.b); !status) return status.error();
  return pair;
}

struct Opened {
  MappedFile file;
  std::vector<Safetensor> tensors;
};

}  // namespace

Result<LoraFile> open_lora_folder(const std::string& folder, const LoraBase& base) {
  auto config = JsonFile::read(folder, kConfigName);
  if (!config) return config.error();
  const auto settings = read_settings(config->root());
  if (!settings) return settings.error();
  const auto interleaves = interleaves_heads(base.architecture);
  if (!interleaves) return interleaves.error();
  auto mapped = MappedFile::open(folder + "/" + kTensorsName);
  if (!mapped) return mapped.error();
  auto tensors = parse_safetensors(mapped->bytes(), kTensorsName);
  if (!tensors) return tensors.error();
  auto opened = std::make_shared<const Opened>(std::move(*mapped), std::move(*tensors));

  LoraFile lora;
  lora.alpha = static_cast<float>(settings->alpha);
  std::map<std::string, Found> pairs;
  for (const Safetensor& tensor : opened->tensors) {
    auto module = module_of(tensor, base.n_heads.size());
    if (!module) return module.error();
    Found& found = pairs[module->target];
    const Safetensor*& place = module->is_a ? found.a : found.b;
    if (place != nullptr) return bad_factor(tensor, "adapts the same matrix as " + in_quotes(place->name));
    place = &tensor;
    found.module = std::move(*module);
  }
  if (pairs.empty()) return Error{ErrorCode::kInvalidFile, std::string(kTensorsName) + " has no tensors"};
  for (const auto& [target, found] : pairs) {
    auto pair = make_pair_of(found, *settings, *interleaves, base);
    if (!pair) return pair.error();
    lora.pairs.push_back(std::move(*pair));
  }
  lora.source = std::move(opened);
  return lora;
}

}  // namespace monolith::hf
