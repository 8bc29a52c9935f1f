#include "engine/debug/inspect.h"

#include <algorithm>
#include <map>

#include "engine/debug/file_hash.h"
#include "engine/embedding/encoder_budget.h"
#include "engine/kv/page_budget.h"
#include "formats/gguf/parser.h"
#include "formats/gguf/tokenizer.h"

namespace monolith {
namespace {

InspectedValue inspect_value(const GgufFile& file, std::string_view key, const GgufValue& value) {
  InspectedValue result{std::string(key), std::string(gguf_type_name(value.type)), {}, value.count};
  switch (value.type) {
    case GgufValueType::kArray: result.type = "array of " + std::string(gguf_type_name(value.element_type)); break;
    case GgufValueType::kString:
      if (auto text = file.string(key); text && *text) result.value = std::string(**text);
      break;
    case GgufValueType::kBool:
      if (auto flag = file.boolean(key); flag && *flag) result.value = **flag;
      break;
    default:
      if (auto number = file.number(key); number && *number) result.value = **number;
  }
  return result;
}

std::optional<std::string> optional_string(const GgufFile& file, std::string_view key) {
  auto text = file.string(key);
  if (!text || !*text) return std::nullopt;
  return std::string(**text);
}

std::optional<std::string> spelling(const Tokenizer& tokenizer, TokenId id) {
  if (id == kNoToken) return std::nullopt;
  return std::string(tokenizer.bytes(id));
}

// Returns the tensor's size in memory. FP8 tensors take one byte per value and one scale per row.
uint64_t kept_bytes(const GgufTensor& tensor) {
  if (!tensor.fp8) return tensor.bytes();
  const auto values = static_cast<uint64_t>(tensor.n_values());
  return values + values / static_cast<uint64_t>(tensor.shape[0]) * sizeof(float);
}

// Performs all checks that loading the model would perform, but allocates no memory for the model. Fills in the model
// description and the memory plan.
Status inspect_model(const GgufFile& file, const Backend& backend, const ModelLimits& wanted, int max_context,
                     uint64_t kv_bytes, Inspection& result) {
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  auto tokenizer = load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  auto limits = choose_limits(file, backend, wanted, max_context, kv_bytes);
  if (!limits) return limits.error();
  auto plan = Model::plan(file, backend, *limits);
  if (!plan) return plan.error();
  auto info = model_info(file, *params, **tokenizer);
  if (!info) return info.error();
  result.model = std::move(*info);
  if (result.model->embeddings) result.model->embeddings->max_tokens = limits->max_context;
  result.plan = InspectedPlan::of(*plan, *limits, *params);
  return {};
}

// Fills in the model and memory plan of a text encoder, as inspect_model() does for other models.
Status inspect_encoder(const GgufFile& file, Backend& backend, int max_context, Inspection& result) {
  auto budget = plan_encoder(file, backend, max_context, memory_for_encoder());
  if (!budget) return budget.error();
  auto params = TextEncoderParams::read(file, budget->max_context);
  if (!params) return params.error();
  auto tokenizer = load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  auto info = model_info(file, params->base, **tokenizer);
  if (!info) return info.error();
  result.model = std::move(*info);
  result.model->embeddings->max_tokens = params->max_tokens;
  result.plan = InspectedPlan::of_encoder(budget->plan, params->max_tokens);
  return {};
}

}  // namespace

Result<std::optional<EmbeddingInfo>> embedding_info(const GgufFile& file, const PoolingHead& head, bool is_encoder,
                                                    int max_tokens, const Tokenizer& tokenizer) {
  if (head.pooling() == Pooling::kNone) return std::optional<EmbeddingInfo>();
  EmbeddingInfo info{.dimensions = head.dimensions(),
                     .pooling = head.pooling(),
                     .is_encoder = is_encoder,
                     .max_tokens = max_tokens,
                     .labels = head.labels(),
                     .prefix = {},
                     .suffix = {}};
  std::vector<TokenId> around;
  tokenizer.encode("", {.add_special = true}, around);
  const bool begins = !around.empty() && tokenizer.adds_bos();
  info.prefix.assign(around.begin(), around.begin() + (begins ? 1 : 0));
  info.suffix.assign(around.begin() + (begins ? 1 : 0), around.end());
  auto separator = file.unsigned_integer(kSeparatorKey);
  if (!separator) return separator.error();
  if (*separator && **separator < static_cast<uint64_t>(tokenizer.n_vocab()))
    info.separator = static_cast<TokenId>(**separator);
  return std::optional<EmbeddingInfo>(std::move(info));
}

Result<ModelInfo> model_info(const GgufFile& file, const HyperParams& params, const Tokenizer& tokenizer) {
  ModelInfo info;
  info.architecture = params.architecture_name;
  info.name = optional_string(file, "general.name");
  std::map<TensorType, int64_t> values_by_type;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with("rope_f")) continue;  // rope_freqs and rope_factors_* are not model parameters.
    info.parameters += tensor.n_values();
    values_by_type[tensor.kept_as()] += tensor.n_values();
  }
  if (!values_by_type.empty()) {
    const auto most = std::ranges::max_element(values_by_type, {}, [](const auto& entry) { return entry.second; });
    info.quantization = traits_of(most->first).name;
  }
  info.context_length = params.context_length;
  info.layers = params.n_layers;
  info.mtp_layers = params.n_mtp_layers;
  info.heads = params.most(&LayerParams::n_heads);
  info.kv_heads = params.most(&LayerParams::n_kv_heads);
  info.head_dim = params.most(&LayerParams::key_dim);
  info.embedding = params.n_embd;
  info.feed_forward = params.experts.count > 0 ? params.experts.n_ff : params.most(&LayerParams::n_ff);
  info.experts = params.experts.count;
  info.used_experts = params.experts.used;
  info.vocabulary = params.n_vocab;
  info.chat_template = optional_string(file, "tokenizer.chat_template");
  auto head = PoolingHead::load(file, {params.pooling, params.n_embd, params.norm_eps, !is_text_encoder(file)});
  if (!head) return head.error();
  auto embedding = embedding_info(file, *head, is_text_encoder(file), params.context_length, tokenizer);
  if (!embedding) return embedding.error();
  info.embeddings = std::move(*embedding);
  info.bos = spelling(tokenizer, tokenizer.bos());
  info.eos = spelling(tokenizer, tokenizer.eos());
  const auto ends = tokenizer.end_of_generation();
  info.end_of_generation.assign(ends.begin(), ends.end());
  for (TokenId id = 0; id < tokenizer.n_vocab(); ++id) {
    const TokenKind kind = tokenizer.kind(id);
    const std::string_view bytes = tokenizer.bytes(id);
    if (kind == TokenKind::kControl ||
        (kind == TokenKind::kUserDefined && (bytes.starts_with('<') || bytes.starts_with('[')))) {
      info.special_tokens.emplace_back(bytes);
    }
  }
  return info;
}

Inspection inspect(const GgufFile& file, Backend& backend, const ModelLimits& limits, int max_context,
                   uint64_t kv_bytes) {
  Inspection result;
  result.file_bytes = file.file_bytes();
  result.file_hash = hash_text(file_hash(file));
  for (const auto& [key, value] : file.metadata()) result.metadata.push_back(inspect_value(file, key, value));
  for (const GgufTensor& tensor : file.tensors()) {
    result.tensors.push_back({std::string(tensor.name),
                              std::string(traits_of(tensor.kept_as()).name),
                              {tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims},
                              kept_bytes(tensor)});
  }
  const Status status = is_text_encoder(file) ? inspect_encoder(file, backend, max_context, result)
                                              : inspect_model(file, backend, limits, max_context, kv_bytes, result);
  if (!status) result.reason = status.error().message;
  return result;
}

Result<Inspection> inspect(const std::string& path, Backend& backend, const ModelLimits& limits, int max_context,
                           uint64_t kv_bytes, const ModelFileOptions& options) {
  auto opened = open_model_file(path, options);
  if (!opened) return opened.error();
  return inspect(**opened, backend, limits, max_context, kv_bytes);
}

}  // namespace monolith
