#include "formats/hf/sentence_modules.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "formats/gguf/parser.h"
#include "formats/hf/json_file.h"
#include "formats/hf/shards.h"
#include "formats/hf/translator.h"

namespace monolith::hf {
namespace {

// Values of the GGUF key "pooling_type".
constexpr uint64_t kMeanPooling = 1, kClsPooling = 2, kLastPooling = 3;

struct PoolingMode {
  std::string_view flag, name;  // Key with a boolean, and value of "pooling_mode", which newer versions write.
  uint64_t gguf;                // 0: not supported.
};
constexpr PoolingMode kPoolingModes[] = {{"pooling_mode_cls_token", "cls", kClsPooling},
                                         {"pooling_mode_mean_tokens", "mean", kMeanPooling},
                                         {"pooling_mode_lasttoken", "lasttoken", kLastPooling},
                                         {"pooling_mode_max_tokens", "max", 0},
                                         {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", 0},
                                         {"pooling_mode_weightedmean_tokens", "weightedmean", 0}};

Result<uint64_t> read_pooling_mode(const JsonValue& config) {
  uint64_t type = 0;
  if (auto includes = config["include_prompt"].boolean(); !includes)
    return includes.error();
  else if (!includes->value_or(true))
    return config["include_prompt"].unsupported("is false, which is not supported");
  const std::string_view name = config["pooling_mode"].text();
  for (const PoolingMode& mode : kPoolingModes) {
    auto flag = config[mode.flag].boolean();
    if (!flag) return flag.error();
    if (!flag->value_or(false) && mode.name != name) continue;
    if (mode.gguf == 0)
      return config[mode.flag].exists()
                 ? config[mode.flag].unsupported("is true, which is not supported")
                 : config["pooling_mode"].unsupported("is " + in_quotes(name) + " (known: cls, mean, lasttoken)");
    if (type != 0) return config[mode.flag].unsupported("is true in addition to another mode, which is not supported");
    type = mode.gguf;
  }
  if (type != 0) return type;
  return name.empty() ? config["pooling_mode_mean_tokens"].invalid("and all other pooling modes are false or missing")
                      : config["pooling_mode"].unsupported("is " + in_quotes(name) + " (known: cls, mean, lasttoken)");
}

// Adds the layer as tensors `name`.weight and `name`.bias.
Status add_dense(const JsonValue& config, const std::string& folder, const std::string& name, AssembledFile& file,
                 std::vector<MappedFile>& mapped) {
  auto biased = config["bias"].boolean();
  if (!biased) return biased.error();
  bool has_weight = false, has_bias = false;
  if (const JsonValue function = config["activation_function"];
      function.exists() && !function.text().ends_with(".Identity"))
    return function.unsupported("is " + in_quotes(function.text()) + ", expected torch's Identity");
  auto shards = open_shards(folder);
  if (!shards) return shards.error();
  for (Shard& shard : *shards) {
    for (const Safetensor& tensor : shard.tensors) {
      const auto type = type_of(tensor);
      if (!type || (tensor.name != "linear.weight" && tensor.name != "linear.bias"))
        return invalid(tensor, "is not a dense layer's 'linear.weight' or 'linear.bias' of type F32, F16 or BF16");
      const bool is_bias = tensor.name.ends_with(".bias");
      if (tensor.shape.size() != (is_bias ? 1u : 2u))
        return invalid(tensor, "has " + std::to_string(tensor.shape.size()) + " dimensions");
      (is_bias ? has_bias : has_weight) = true;
      file.tensor(name + tensor.name.substr(6), {tensor.shape.rbegin(), tensor.shape.rend()}, *type, tensor.data);
    }
    mapped.push_back(std::move(shard.file));
  }
  if (!has_weight) return Error{ErrorCode::kInvalidFile, "model.safetensors: tensor 'linear.weight' is missing"};
  if (biased->value_or(has_bias) != has_bias)
    return config["bias"].invalid(has_bias ? "is false, but the layer has a bias" : "is true, but the bias is missing");
  return {};
}

// A step's path must be the name of a direct subfolder of the model's folder.
bool is_plain_name(std::string_view path) {
  return !path.empty() && path != "." && path != ".." && path.find_first_of(std::string_view("/\\\0", 3)) == path.npos;
}

}  // namespace

Status add_sentence_modules(const std::string& folder, std::string_view architecture, bool ranks, AssembledFile& file,
                            std::vector<MappedFile>& mapped, size_t& bytes) {
  auto modules = JsonFile::read_any(folder, "modules.json", true);
  if (!modules) return modules.error();
  const JsonValue steps = modules->root();
  if (!steps.exists()) return {};
  if (!steps.is_array()) return steps.invalid("is not an array");
  bytes += modules->bytes();
  constexpr std::array kDenseNames = {"dense_2", "dense_3"};  // Named after the folders of the first model with them.
  // The order of the steps: Transformer, Pooling, any Dense steps, Normalize.
  size_t n_dense = 0;
  bool pools = false, is_over = false;
  for (size_t i = 0; i < steps.items().size(); ++i) {
    const JsonValue step = steps.item(i);
    const std::string_view type = step["type"].text();
    const std::string_view kind = type.substr(std::min(type.size(), type.rfind('.') + 1));
    const bool is_dense = kind == "Dense", is_pooling = kind == "Pooling";
    if (!type.starts_with("sentence_transformers.") ||
        (kind != "Transformer" && kind != "Normalize" && !is_dense && !is_pooling))
      return step["type"].unsupported("is " + in_quotes(type) +
                                      " (known: Transformer, Pooling, Dense and Normalize of sentence_transformers)");
    if ((kind == "Transformer") != (i == 0) || is_over || (is_pooling && pools) || (is_dense && !pools))
      return step["type"].unsupported("is " + in_quotes(type) +
                                      " at an unexpected place (expected Transformer, Pooling, Dense, Normalize)");
    if (kind == "Transformer") continue;
    is_over = kind == "Normalize";
    if (is_over) continue;
    if (ranks) return step["type"].unsupported("is " + in_quotes(type) + ", but the model is a reranker");
    pools = pools || is_pooling;
    const std::string_view path = step["path"].text();
    if (!is_plain_name(path)) return step["path"].invalid("is not the name of a folder in the model's folder");
    const std::string name(path);
    auto config = JsonFile::read(folder, name + "/config.json");
    if (!config) return config.error();
    bytes += config->bytes();
    if (is_pooling) {
      const auto mode = read_pooling_mode(config->root());
      if (!mode) return mode.error();
      file.integer(std::string(architecture) + ".pooling_type", *mode);
      continue;
    }
    if (n_dense == kDenseNames.size()) return step["type"].unsupported("is the third dense layer (at most 2)");
    if (Status status = add_dense(config->root(), folder + "/" + name, kDenseNames[n_dense++], file, mapped); !status)
      return Error{status.error().code, name + ": " + status.error().message};
  }
  return {};
}

}  // namespace monolith::hf
