#include "formats/hf/tensors.h"

#include <algorithm>
#include <charconv>

#include "formats/gguf/parser.h"
#include "formats/hf/quantized_rows.h"
#include "formats/hf/tensor_names.h"
#include "formats/hf/translator.h"

namespace monolith::hf {
namespace {

float plus_one(float value) { return value + 1; }

}  // namespace

std::optional<TensorType> type_of(const Safetensor& tensor) {
  if (tensor.rows != nullptr) return tensor.rows->exact_type();
  if (tensor.type == "F32") return TensorType::kF32;
  if (tensor.type == "F16") return TensorType::kF16;
  if (tensor.type == "BF16") return TensorType::kBF16;
  return std::nullopt;
}

Error invalid(const Safetensor& tensor, const std::string& what) {
  return {ErrorCode::kInvalidFile, tensor.file + ": tensor " + in_quotes(tensor.name) + " " + what};
}

int64_t take_number(std::string_view& rest) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const size_t size = static_cast<size_t>(end - rest.data());
  if (error != std::errc() || number < 0 || size >= rest.size() || rest[size] != '.') return -1;
  rest.remove_prefix(size + 1);
  return number;
}

std::pair<std::string_view, std::string_view> split_suffix(std::string_view name) {
  for (const std::string_view suffix : {".weight", ".bias"})
    if (name.ends_with(suffix)) return {name.substr(0, name.size() - suffix.size()), suffix};
  return {name, {}};
}

Rows rows_of(const Safetensor& tensor, TensorType type) {
  if (tensor.rows != nullptr) return tensor.rows;
  return plain_rows(type, tensor.shape.size() == 1 ? 1 : tensor.shape.back(), tensor.data);
}

Status Translator::add(const Safetensor& tensor) {
  const bool may_draft = config_.mtp_layers > 0 && config_.architecture->drafts == MtpPlacement::kMtp;
  const auto draft = may_draft ? mtp_name(tensor.name) : std::nullopt;
  if (is_left_out(tensor.name) && !draft) return {};
  const bool is_head = config_.architecture->family == Family::kEagle;
  if (config_.architecture->family == Family::kBlocks && tensor.name.ends_with(".tid2eid"))
    return add_expert_numbers(tensor);
  if (is_head && (tensor.name == "d2t" || tensor.name == "t2d")) return add_token_numbers(tensor);
  if (tensor.type == "U8" && config_.architecture->gguf == "gpt-oss") return add_packed(tensor);
  const auto type = type_of(tensor);
  if (!type)
    return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                              in_quotes(tensor.type) +
                                              ", which is not supported (known: F32, F16, BF16)"};
  if (tensor.shape.empty() || tensor.shape.size() > 4)
    return invalid(tensor, "has " + std::to_string(tensor.shape.size()) + " dimensions, expected 1 to 4");
  if (std::ranges::any_of(tensor.shape, [](int64_t length) { return length < 1; }))
    return invalid(tensor, "has a dimension of length 0");

  std::string_view rest = tensor.name;
  if (draft) return add_of_drafts(*draft, tensor, *type);
  if (constexpr std::string_view kOnly = "midlayer."; is_head && rest.starts_with(kOnly))
    return add_of_layer(0, rest.substr(kOnly.size()), tensor, *type);
  rest = without_model_prefix(rest);
  if (is_output(rest)) {
    // With tied embeddings, an output matrix in the file is only a copy of the embedding table, which some tools write.
    return config_.tied ? Status() : put("output.weight", tensor, *type);
  }
  if (rest == "lm_head.bias") return put("output.bias", tensor, *type);
  for (const std::string_view layers : {"layers.", "h."}) {
    if (!rest.starts_with(layers)) continue;
    std::string_view inner = rest.substr(layers.size());
    const int64_t layer = take_number(inner);
    if (layer >= 0) return add_of_layer(layer, inner, tensor, *type);
  }
  const auto [stem, suffix] = split_suffix(rest);
  // Gemma 3n: the projections to each residual stream except the first, and the projections back.
  for (const auto& [list, joined] :
       {std::pair<std::string_view, const char*>{"altup_projections.", "altup_proj.weight"},
        std::pair<std::string_view, const char*>{"altup_unembed_projections.", "altup_unembd_proj.weight"}}) {
    if (config_.streams <= 1 || !rest.starts_with(list)) continue;
    std::string_view inner = rest.substr(list.size());
    if (const int64_t i = take_number(inner); i >= 0 && inner == "weight")
      return add_expert(joined, i, config_.streams - 1, tensor, *type);
  }
  if (config_.architecture->family == Family::kBlocks)
    for (const std::string_view part : {"fn", "base", "scale"})
      if (rest == "hc_head_" + std::string(part))
        return put("output_hc_" + std::string(part) + ".weight", tensor, *type);
  const std::string_view name = name_of_model(stem);
  if (name.empty()) return put(tensor.name, tensor, *type);
  if (name == "token_embd" && suffix == ".weight" && tensor.shape.size() == 2) {
    table_rows_ = tensor.shape[0];
    if (config_.table_rows > 0 && config_.table_rows < table_rows_) {  // The remaining rows belong to no token.
      table_rows_ = config_.table_rows;
      return put_runs("token_embd.weight", {tensor.shape[1], table_rows_}, {{rows_of(tensor, *type), 0, table_rows_}},
                      tensor);
    }
  }
  return put(std::string(name) + std::string(suffix), tensor, *type);
}

Result<int64_t> Translator::finish() {
  for (const auto& [name, experts] : experts_) {
    std::vector<int64_t> shape = experts.shape;
    const size_t n = experts.parts.size();
    if (static_cast<int64_t>(n) != experts.count || experts.parts.rbegin()->first != experts.count - 1)
      return Error{ErrorCode::kInvalidFile, "tensor '" + name + "' has " + std::to_string(n) + " experts, expected " +
                                                std::to_string(experts.count)};
    std::vector<Run> runs;
    bool alike = true;
    for (const auto& [number, expert] : experts.parts) {
      runs.push_back({rows_of(*expert, experts.type), 0, shape[1]});
      alike = alike && runs.back().of->exact_type() == experts.type;
    }
    if (!alike)  // A quantized matrix's storage type depends on its zero points and scales, so experts can differ.
      for (Run& run : runs) run.of = float_rows(run.of);
    std::vector<float> factors;
    for (const Run& run : runs) factors.push_back(run.of->factor());
    shape.push_back(static_cast<int64_t>(n));
    put_rows(name, shape, stacked_rows(std::move(runs)));
    put_scale(name, factors);
  }
  for (const auto& [name, numbers] : activation_numbers_) file_.numbers(name, numbers);
  for (const auto& [name, packed] : packed_)
    if (Status status = put_packed(name, packed); !status) return status.error();
  if (table_rows_ == 0 && config_.architecture->family != Family::kEagle)
    return Error{ErrorCode::kInvalidFile, "embedding table ('model.embed_tokens.weight') is missing"};
  return table_rows_;
}

std::string_view Translator::layer_name(std::string_view stem) const {
  if (stem == "post_attention_layernorm") return config_.architecture->second_norm;
  return name_of_layer(stem);
}

Status Translator::add_of_layer(int64_t layer, std::string_view rest, const Safetensor& tensor, TensorType type) {
  if (config_.architecture->drafts != MtpPlacement::kNone && layer >= config_.layers + config_.mtp_layers) return {};
  const std::string block = "blk." + std::to_string(layer) + ".";
  if (is_choice_bias(rest)) {
    int64_t count = 1;
    for (const int64_t length : tensor.shape) count *= length;
    put_rows(block + "exp_probs_b.bias", {count}, rows_of(tensor, type));
    return {};
  }
  if (const auto taken = add_of_family(block, rest, tensor, type); !taken || *taken)
    return taken ? Status() : Status(taken.error());
  if (rest.starts_with("mlp.act_fn.") && config_.architecture->activation == Activation::kXielu)
    return add_activation_number(layer, rest.substr(11), tensor, type);
  if (const std::string_view plain = plain_name_of_layer(rest); !plain.empty())
    return put(block + std::string(plain), tensor, type);
  if (config_.architecture->gguf == "gpt-oss" && rest.starts_with("mlp.experts."))
    return add_expert_bias(block, rest, tensor, type);
  const auto [stem, suffix] = split_suffix(rest);
  if (std::string_view inner = stem; take_expert_prefix(inner)) {
    const int64_t expert = take_number(inner);
    const std::string_view name = name_of_expert(inner);
    if (expert >= 0 && !name.empty())
      return add_expert(block + std::string(name) + std::string(suffix), expert, config_.experts, tensor, type);
  }
  if (const std::string_view kind = kind_of_fused(stem); !kind.empty())
    return add_fused(block, std::string(kind), tensor, type);
  if (stem == "attention.wqkv") return add_grouped(block, suffix, tensor, type);
  if (stem == "attention.query_key_value") return add_joined(block, suffix, tensor, type);
  if (config_.sharded.shards > 0 && rest == "self_attn.qkv_proj.weight") return add_sharded(layer, tensor, type);
  if (stem == "mlp.experts.down_proj") return put(block + "ffn_down_exps.weight", tensor, type);
  const std::string_view name = layer_name(stem);
  if (name.empty() || suffix.empty()) return put(tensor.name, tensor, type);
  return put(block + std::string(name) + std::string(suffix), tensor, type);
}

// DeepSeek V4: adds the table of expert IDs for each token ID, which replaces the router in the first layers.
Status Translator::add_expert_numbers(const Safetensor& tensor) {
  std::string_view rest = tensor.name;
  if (rest.starts_with("layers.")) rest.remove_prefix(7);
  const int64_t layer = take_number(rest);
  if (layer < 0 || rest != "ffn.gate.tid2eid" || (tensor.type != "I64" && tensor.type != "I32"))
    return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                              in_quotes(tensor.type) +
                                              ", expected I64 or I32, of a layer's 'ffn.gate.tid2eid'"};
  if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1)
    return invalid(tensor, "is not a table of expert ids");
  file_.tensor("blk." + std::to_string(layer) + ".ffn_gate_tid2eid.weight", {tensor.shape[1], tensor.shape[0]},
               tensor.type == "I64" ? TensorType::kI64 : TensorType::kI32, tensor.data);
  return {};
}

// Adds the map from an EAGLE head's logits to token IDs (d2t). The inverse map, t2d, is redundant and is ignored.
Status Translator::add_token_numbers(const Safetensor& tensor) {
  if (tensor.name == "t2d") return {};
  if (tensor.type != "I64" && tensor.type != "I32")
    return Error{ErrorCode::kUnsupported, tensor.file + ": tensor " + in_quotes(tensor.name) + " has type " +
                                              in_quotes(tensor.type) + ", expected I64 or I32"};
  if (tensor.shape.size() != 1 || tensor.shape[0] < 1) return invalid(tensor, "is not a list of token ids");
  file_.tensor(tensor.name, tensor.shape, tensor.type == "I64" ? TensorType::kI64 : TensorType::kI32, tensor.data);
  return {};
}

// Adds a tensor of the MTP layers, which transformers does not load. The names are taken from vLLM's qwen3_next_mtp.py,
// qwen3_5_mtp.py and exaone_moe_mtp.py and from MiMo V2 checkpoints. Tensors outside the layers are shared, so they are
// added to each MTP layer.
Status Translator::add_of_drafts(const DraftName& draft, const Safetensor& tensor, TensorType type) {
  if (draft.level >= config_.mtp_layers)
    return invalid(tensor, "belongs to none of the " + std::to_string(config_.mtp_layers) + " MTP layers");
  if (draft.level >= 0) return add_of_layer(config_.layers + draft.level, draft.rest, tensor, type);
  const auto [stem, suffix] = split_suffix(draft.rest);
  const std::string_view name = name_of_mtp(stem);
  if (name.empty()) return put(tensor.name, tensor, type);
  for (int64_t layer = config_.layers; layer < config_.layers + config_.mtp_layers; ++layer)
    if (Status status =
            put("blk." + std::to_string(layer) + "." + std::string(name) + std::string(suffix), tensor, type);
        !status)
      return status;
  return {};
}

Status Translator::add_expert(const std::string& name, int64_t expert, int64_t count, const Safetensor& tensor,
                              TensorType type) {
  std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
  if (shape.size() != 2) return invalid(tensor, "is not a matrix");
  const auto [found, is_new] = experts_.try_emplace(name, Experts{type, shape, {}, count});
  Experts& experts = found->second;
  if ((experts.type != type && tensor.rows == nullptr) || experts.shape != shape)
    return invalid(tensor, "has another type or shape than another expert's tensor");
  if (!experts.parts.emplace(expert, &tensor).second) return invalid(tensor, "occurs twice");
  return {};
}

// Splits a fused gate and up matrix of shape [experts..., 2 * width, embedding], in which the gate rows come first. In
// a model without routed experts, the shared expert becomes the feed-forward network.
Status Translator::add_fused(const std::string& block, const std::string& kind, const Safetensor& tensor,
                             TensorType type) {
  std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
  const size_t dimensions = kind == "exps" ? 3 : 2;
  if (shape.size() != dimensions || shape[1] % 2 != 0)
    return invalid(tensor, "must hold the gate rows followed by the same number of up rows");
  const Rows rows = rows_of(tensor, type);
  const int64_t count = dimensions == 3 ? shape[2] : 1, half = shape[1] / 2;
  shape[1] = half;
  for (const int64_t which : {0, 1}) {
    std::vector<Run> runs;
    for (int64_t i = 0; i < count; ++i) runs.push_back({rows, (2 * i + which) * half, half});
    const std::string suffix = config_.experts == 0 ? ".weight" : "_" + kind + ".weight";
    put_rows(block + (which == 0 ? "ffn_gate" : "ffn_up") + suffix, shape, joined_rows(std::move(runs)));
  }
  return {};
}

// Splits a fused query, key and value matrix that is grouped by key head. Each group consists of the query heads, the
// key head and the value head.
Status Translator::add_grouped(const std::string& block, std::string_view suffix, const Safetensor& tensor,
                               TensorType type) {
  const int64_t rows = tensor.shape[0], groups = config_.kv_heads;
  const int64_t queries = groups > 0 ? config_.heads / groups : 0;
  if (tensor.shape.size() > 2 || groups < 1 || config_.heads % groups != 0 || rows % (groups * (queries + 2)) != 0)
    return invalid(tensor, "must hold " + std::to_string(config_.heads) + " query heads and " + std::to_string(groups) +
                               " key and value heads each");
  const int64_t width = rows / (groups * (queries + 2));
  const Rows all = rows_of(tensor, type);
  const auto add_part = [&](const char* name, int64_t first, int64_t heads) {
    std::vector<Run> runs;
    for (int64_t group = 0; group < groups; ++group)
      runs.push_back({all, (group * (queries + 2) + first) * width, heads * width});
    std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    shape.back() = groups * heads * width;
    return put_runs(block + name + std::string(suffix), shape, std::move(runs), tensor);
  };
  if (Status status = add_part("attn_q", 0, queries); !status) return status;
  if (Status status = add_part("attn_k", queries, 1); !status) return status;
  return add_part("attn_v", queries + 1, 1);
}

// Splits a fused query, key and value matrix that is stored as tensor-parallel shards, for engines that run one shard
// per device.
Status Translator::add_sharded(int64_t layer, const Safetensor& tensor, TensorType type) {
  const auto& [shards, key_dim, value_dim, kv_heads] = config_.sharded;
  const int64_t own = kv_heads[static_cast<size_t>(layer)];  // add_of_layer() has rejected layers that do not exist.
  const int64_t counts[] = {config_.heads * key_dim, own * key_dim, own * value_dim},
                all_rows = counts[0] + counts[1] + counts[2];
  if (tensor.shape.size() != 2 || tensor.shape[0] != all_rows || config_.heads % shards != 0 || own % shards != 0)
    return invalid(tensor, "must hold " + std::to_string(config_.heads) + " query heads and " + std::to_string(own) +
                               " key and value heads each in " + std::to_string(shards) + " shards");
  const Rows all = rows_of(tensor, type);
  int64_t first = 0;
  for (size_t part = 0; part < 3; ++part) {
    const int64_t share = counts[part] / shards;
    std::vector<Run> runs;
    for (int64_t shard = 0; shard < shards; ++shard) runs.push_back({all, shard * (all_rows / shards) + first, share});
    constexpr const char* kNames[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
    const std::string name = "blk." + std::to_string(layer) + "." + kNames[part];
    if (Status status = put_runs(name, {tensor.shape[1], counts[part]}, std::move(runs), tensor); !status)
      return status;
    first += share;
  }
  return {};
}

// Adds a fused matrix that contains all query heads, then all key heads, then all value heads. The matrix is split only
// if the query and key rows must be reordered.
Status Translator::add_joined(const std::string& block, std::string_view suffix, const Safetensor& tensor,
                              TensorType type) {
  if (!config_.architecture->interleaves_heads) return put(block + "attn_qkv" + std::string(suffix), tensor, type);
  const int64_t rows = tensor.shape[0], heads = config_.heads + 2 * config_.kv_heads;
  if (tensor.shape.size() > 2 || heads < 1 || rows % heads != 0)
    return invalid(tensor, "must hold " + std::to_string(config_.heads) + " query heads and " +
                               std::to_string(config_.kv_heads) + " key and value heads each");
  const Rows all = rows_of(tensor, type);
  int64_t at = 0;
  for (const auto& [name, count] : {std::pair{"attn_q", config_.heads}, std::pair{"attn_k", config_.kv_heads},
                                    std::pair{"attn_v", config_.kv_heads}}) {
    std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    shape.back() = rows / heads * count;
    if (Status status = put_runs(block + name + std::string(suffix), shape, {{all, at, shape.back()}}, tensor); !status)
      return status;
    at += shape.back();
  }
  return {};
}

Status Translator::put(const std::string& name, const Safetensor& tensor, TensorType type) {
  const std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
  const Rows rows = rows_of(tensor, type);
  return put_runs(name, shape, {{rows, 0, rows->rows()}}, tensor);
}

Status Translator::put_runs(const std::string& name, const std::vector<int64_t>& shape, std::vector<Run> runs,
                            const Safetensor& tensor) {
  const bool whole = runs.size() == 1 && runs[0].first == 0 && runs[0].count == runs[0].of->rows();
  Rows rows = whole ? runs[0].of : joined_rows(std::move(runs));
  const bool is_q = name.find(".attn_q.") != std::string::npos, is_k = name.find(".attn_k.") != std::string::npos;
  bool changed = !whole || tensor.rows != nullptr;
  if (config_.architecture->interleaves_heads && (is_q || is_k)) {
    const int64_t heads = is_q ? config_.heads : config_.kv_heads, n = rows->rows();
    if (heads < 1 || n > INT32_MAX || n % heads != 0 || n / heads % 2 != 0)
      return invalid(
          tensor, "has " + std::to_string(n) + " rows, which are not " + std::to_string(heads) + " heads of even size");
    // Reordering the rows of each head as 0, n/2, 1, n/2 + 1, ... makes RoPE pairs (i, i + n/2) adjacent.
    const int64_t width = n / heads;
    std::vector<int32_t> order;
    for (int64_t row = 0; row < n; ++row)
      order.push_back(static_cast<int32_t>(row / width * width + row % width / 2 + row % 2 * (width / 2)));
    rows = picked_rows(rows, std::move(order));
    changed = true;
  }
  if (config_.architecture->norms_from_one && name.ends_with("norm.weight") && !name.ends_with("ssm_norm.weight")) {
    rows = mapped_rows(rows, plus_one);
    changed = true;
  }
  if (const Rows more = multiplied(name, rows); more != rows) {
    rows = more;
    changed = true;
  }
  if (changed)
    put_rows(name, shape, std::move(rows));
  else
    // The tensor's data stays in the mapped file and is used unchanged.
    file_.tensor(name, shape, rows->exact_type(), tensor.data);
  return {};
}

void Translator::put_rows(std::string_view name, const std::vector<int64_t>& shape, Rows rows) {
  const TensorType type = rows->exact_type();
  const int64_t cols = rows->cols();
  put_scale(name, {rows->factor()});
  file_.tensor(name, shape, type, TensorSource{.type = type, .cols = cols, .maker = std::move(rows)});
}

void Translator::put_scale(std::string_view name, const std::vector<float>& factors) {
  if (std::ranges::all_of(factors, [](float factor) { return factor == 1; })) return;
  file_.tensor(std::string(name.substr(0, name.rfind('.'))) + ".scale", factors);
}

Result<int64_t> translate_tensors(const std::vector<Safetensor>& tensors, const Config& config, AssembledFile& file) {
  Translator translator(config, file);
  for (const Safetensor& tensor : tensors)
    if (Status status = translator.add(tensor); !status) return status.error();
  return translator.finish();
}

}  // namespace monolith::hf
