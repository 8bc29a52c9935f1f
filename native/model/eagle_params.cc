#include "model/eagle_params.h"

#include <cmath>

#include "model/layer_params.h"
#include "model/metadata_reader.h"
#include "model/rope_frequencies.h"

namespace monolith {
namespace {

constexpr std::string_view kArchitecture = "eagle3";
constexpr int64_t kMaxEmbedding = 1 << 17, kMaxHeads = 1024, kMaxHeadDim = 1024, kMaxContext = 1 << 27;

Error does_not_fit(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "this EAGLE-3 head does not fit the model: " + what};
}

// Reads `target_layers`, called `extract_layers` in early files. By default, returns an early, a middle and a late
// layer, as in the published code.
Status read_sources(const GgufFile& file, const MetadataReader& read, const HyperParams& model, EagleParams& head) {
  const std::string key = read.key(read.has("target_layers") ? "target_layers" : "extract_layers");
  if (file.find(key) == nullptr) {
    if (model.n_layers < 6)
      return does_not_fit("the layers that it reads are not stated ('" + read.key("target_layers") +
                          "'), and the model has only " + std::to_string(model.n_layers));
    head.sources = {2, model.n_layers / 2, model.n_layers - 3};
    return {};
  }
  auto layers = file.integers(key);
  if (!layers) return layers.error();
  const std::vector<int64_t>& items = **layers;
  if (items.size() != head.sources.size())
    return Error{ErrorCode::kInvalidFile, "metadata key '" + key + "' names " + std::to_string(items.size()) +
                                              " layers, expected " + std::to_string(head.sources.size())};
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] < 0 || items[i] > model.n_layers)
      return does_not_fit("'" + key + "' names layer " + std::to_string(items[i]) + ", but the model has only " +
                          std::to_string(model.n_layers));
    head.sources[i] = static_cast<int>(items[i]);
  }
  return {};
}

// Reads the sizes of the head, which the file describes as a one-layer model.
Status read_own(const GgufFile& file, const MetadataReader& read, int max_context, HyperParams& own) {
  Status failed;
  const auto set = [&failed](auto& field, auto&& result) {
    if (!failed) return;
    if (result)
      field = static_cast<std::remove_reference_t<decltype(field)>>(*result);
    else
      failed = result.error();
  };
  LayerParams layer;
  int n_layers = 0, n_rotated = 0;
  set(n_layers, read.integer("block_count", 1, 1));
  set(own.context_length, read.integer("context_length", 1, kMaxContext, kMaxContext));
  set(own.n_embd, read.integer("embedding_length", 1, kMaxEmbedding));
  set(own.norm_eps, read.number("attention.layer_norm_rms_epsilon", 1e-30, 1.0));
  set(layer.n_ff, read.integer("feed_forward_length", 1, kMaxFeedForward));
  set(layer.n_heads, read.integer("attention.head_count", 1, kMaxHeads));
  if (!failed) return failed;
  set(layer.n_kv_heads, read.integer("attention.head_count_kv", 1, kMaxHeads, layer.n_heads));
  set(layer.key_dim, read.integer("attention.key_length", 2, kMaxHeadDim, std::max(2, own.n_embd / layer.n_heads)));
  if (!failed) return failed;
  set(layer.value_dim, read.integer("attention.value_length", 1, kMaxHeadDim, layer.key_dim));
  set(n_rotated, read.integer("rope.dimension_count", 2, layer.key_dim, layer.key_dim));
  if (!failed) return failed;
  if (layer.n_heads % layer.n_kv_heads != 0)
    return Error{ErrorCode::kInvalidFile, "'" + read.key("attention.head_count") + "' (" +
                                              std::to_string(layer.n_heads) + ") is not a multiple of '" +
                                              read.key("attention.head_count_kv") + "' (" +
                                              std::to_string(layer.n_kv_heads) + ")"};
  if (n_rotated % 2 != 0)
    return Error{ErrorCode::kInvalidFile, "'" + read.key("rope.dimension_count") + "' is " + std::to_string(n_rotated) +
                                              ", expected an even number"};
  layer.attention_scale = 1.0f / std::sqrt(static_cast<float>(layer.key_dim));
  auto angles = read_rope_frequencies(file, kArchitecture, n_rotated, own.context_length, max_context, true);
  if (!angles) return angles.error();
  own.ropes = {std::move(*angles)};
  own.layers = {layer};
  own.n_layers = n_layers;
  own.architecture_name = kArchitecture;
  own.rope_style = RopeStyle::kAdjacentPairs;
  return {};
}

// Reads which tokens the head can embed, and the token to which each of its logits belongs.
Status read_vocabulary(const GgufFile& file, const HyperParams& model, EagleParams& head) {
  const auto rows_of = [&](const GgufTensor& tensor) { return tensor.shape[1]; };
  const GgufTensor* const tokens = file.tensor("d2t");
  const GgufTensor* const embedding = file.tensor("token_embd.weight");
  head.n_tokens = model.n_vocab;
  head.chosen_tokens = tokens != nullptr;
  head.own_embedding = embedding != nullptr;
  head.own_head = file.tensor("output.weight") != nullptr;
  if (head.own_embedding && rows_of(*embedding) != model.n_vocab)
    return does_not_fit("it embeds " + std::to_string(rows_of(*embedding)) + " tokens, but the model has " +
                        std::to_string(model.n_vocab));
  const int64_t n_tokens = tokens != nullptr ? tokens->shape[0] : model.n_vocab;
  if (n_tokens < 1 || n_tokens > model.n_vocab)
    return does_not_fit("'d2t' names " + std::to_string(n_tokens) + " tokens, but the model has " +
                        std::to_string(model.n_vocab));
  head.own.n_vocab = static_cast<int>(n_tokens);
  const bool same_width = head.own.n_embd == model.n_embd;
  const auto lacks = [&](const char* tensor) {
    return does_not_fit("it has no tensor '" + std::string(tensor) + "', and the model's tensor has width " +
                        std::to_string(model.n_embd) + ", not " + std::to_string(head.own.n_embd));
  };
  if (!head.own_embedding && !same_width) return lacks("token_embd.weight");
  if (!head.own_head && !same_width) return lacks("output.weight");
  if (!head.own_head && n_tokens != model.n_vocab)
    return Error{ErrorCode::kInvalidFile,
                 "tensor 'output.weight' is missing: 'd2t' names " + std::to_string(n_tokens) + " tokens"};
  return {};
}

}  // namespace

bool is_eagle_head(const GgufFile& file) {
  const auto name = file.string("general.architecture");
  return name && *name && **name == kArchitecture;
}

Status add_eagle_head(const GgufFile& file, int max_context, HyperParams& params) {
  const MetadataReader read(file, kArchitecture);
  auto head = std::make_shared<EagleParams>();
  if (params.streams.count > 1 || params.stream_mix.n_streams > 0)
    return Error{ErrorCode::kUnsupported, "an EAGLE-3 head requires a single residual stream, but architecture '" +
                                              params.architecture_name + "' has several"};
  if (Status status = read_own(file, read, max_context, head->own); !status) return status;
  if (Status status = read_sources(file, read, params, *head); !status) return status;
  auto width = read.integer("target_hidden_size", 1, kMaxEmbedding, params.n_embd);
  if (!width) return width.error();
  if (*width != params.n_embd)
    return does_not_fit("it reads hidden states of " + std::to_string(*width) + " numbers ('" +
                        read.key("target_hidden_size") + "'), but those of the model have " +
                        std::to_string(params.n_embd));
  head->source_dim = *width;
  auto before_fc = read.boolean("norm_before_fc", false);
  if (!before_fc) return before_fc.error();
  auto before_residual = read.boolean("norm_before_residual", false);
  if (!before_residual) return before_residual.error();
  head->norm_before_fc = *before_fc;
  head->norm_before_residual = *before_residual;
  if (Status status = read_vocabulary(file, params, *head); !status) return status;
  // The head's keys and values are stored in the model's KV pages, as if it were one more layer.
  params.layers.resize(static_cast<size_t>(params.n_layers));
  params.layers.push_back(head->own.layers[0]);
  params.layers.back().rope = -1;  // The head has its own RoPE frequencies.
  params.draft = {};
  params.draft.used = true;
  params.draft.eagle = std::move(head);
  return {};
}

}  // namespace monolith
