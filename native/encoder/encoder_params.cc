#include "encoder/encoder_params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "formats/gguf/parser.h"
#include "formats/gguf/tokenizer.h"
#include "model/metadata_reader.h"
#include "model/rope_frequencies.h"

namespace monolith {
namespace {

constexpr int64_t kMaxVocabulary = 1 << 22;
constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxEncoderLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxContext = 1 << 20;
constexpr int64_t kMaxExperts = 1024;
// T5: all distances of at least this many tokens share the last bucket of their direction.
constexpr int kFarthestBucket = 128;
// T5: in each direction, the first n_buckets / 4 buckets each represent a single distance. The number of these
// distances must be less than kFarthestBucket.
constexpr int64_t kMaxBuckets = 4 * (kFarthestBucket - 1);

constexpr std::string_view kBiasName = "attn_rel_b.weight";

enum class Positions : uint8_t { kLearned, kRope, kAlibi, kBuckets };

struct EncoderTraits {
  std::string_view name;
  NormKind norm = NormKind::kLayer;
  Positions positions = Positions::kRope;
  RopeStyle rope_style = RopeStyle::kHalves;
  bool token_types = false;
  bool embedding_norm = false;
  bool embedding_root = false;  // Embeddings are multiplied by sqrt(n_embd).
  bool pre_norms = false;
  bool first_norm_optional = false;  // With pre-norms: layer 0 may lack the norm before attention.
  bool branch_norms = false;
  EncoderQkNorm qk_norm = EncoderQkNorm::kNone;
  bool qk_norm_optional = false;
  std::string_view layer_prefix = "blk.";
  std::string_view attention_output = "attn_output";
  std::string_view final_norm = {};
  EncoderNetwork network = EncoderNetwork::kPlain;
  Activation activation = Activation::kGelu;
  bool activation_key = false;  // The metadata key hidden_act selects the activation.
  bool optional_gate = false;   // kGated if the file has ffn_gate; kFusedGated if ffn_up has 2 * n_ff rows.
  // In every `window_period` layers, one layer attends to the whole text, and the others have a sliding window. The
  // layer without a window is the first of the period if full_layers_first is set, otherwise the last. 0 = no sliding
  // windows.
  int window_period = 0;
  bool full_layers_first = false;
  bool experts = false;
  bool scores_unscaled = false;
};

constexpr std::array kEncoders = {
    EncoderTraits{.name = "bert", .positions = Positions::kLearned, .token_types = true, .embedding_norm = true},
    EncoderTraits{.name = "nomic-bert",
                  .token_types = true,
                  .embedding_norm = true,
                  .network = EncoderNetwork::kGated,
                  .activation = Activation::kSilu},
    EncoderTraits{.name = "nomic-bert-moe", .token_types = true, .embedding_norm = true, .experts = true},
    EncoderTraits{.name = "modern-bert",
                  .embedding_norm = true,
                  .pre_norms = true,
                  .first_norm_optional = true,
                  .final_norm = "output_norm.weight",
                  .network = EncoderNetwork::kFusedGated,
                  .activation_key = true,
                  .window_period = 3,
                  .full_layers_first = true},
    EncoderTraits{.name = "jina-bert-v2",
                  .positions = Positions::kAlibi,
                  .token_types = true,
                  .embedding_norm = true,
                  .qk_norm = EncoderQkNorm::kWholeRow,
                  .qk_norm_optional = true,
                  .optional_gate = true},
    EncoderTraits{.name = "jina-bert-v3", .token_types = true, .embedding_norm = true},
    EncoderTraits{.name = "gemma-embedding",
                  .norm = NormKind::kRms,
                  .embedding_root = true,
                  .pre_norms = true,
                  .branch_norms = true,
                  .qk_norm = EncoderQkNorm::kEachHead,
                  .final_norm = "output_norm.weight",
                  .network = EncoderNetwork::kGated,
                  .window_period = 6},
    EncoderTraits{.name = "eurobert",
                  .norm = NormKind::kRms,
                  .pre_norms = true,
                  .final_norm = "output_norm.weight",
                  .network = EncoderNetwork::kGated,
                  .activation = Activation::kSilu},
    EncoderTraits{.name = "neo-bert",
                  .norm = NormKind::kRms,
                  .rope_style = RopeStyle::kAdjacentPairs,
                  .pre_norms = true,
                  .final_norm = "enc.output_norm.weight",
                  .network = EncoderNetwork::kFusedGated,
                  .activation = Activation::kSilu},
    EncoderTraits{.name = "t5encoder",
                  .norm = NormKind::kRms,
                  .positions = Positions::kBuckets,
                  .pre_norms = true,
                  .layer_prefix = "enc.blk.",
                  .attention_output = "attn_o",
                  .final_norm = "enc.output_norm.weight",
                  .optional_gate = true,
                  .scores_unscaled = true},
};

const EncoderTraits* find_encoder(const GgufFile& file) {
  auto name = file.string("general.architecture");
  if (!name || !*name) return nullptr;
  const auto found = std::ranges::find(kEncoders, **name, &EncoderTraits::name);
  return found == kEncoders.end() ? nullptr : &*found;
}

// Assigns results to fields until the first error, which status() returns.
class Reading {
 public:
  template <typename T, typename U>
  void set(T& field, Result<U> value) {
    if (!status_) return;
    if (value)
      field = static_cast<T>(*value);
    else
      status_ = value.error();
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

std::string layer_name(const EncoderTraits& traits, int layer, std::string_view name) {
  return std::string(traits.layer_prefix) + std::to_string(layer) + "." + std::string(name);
}

// Reads attention.causal, which only T5 files may set to true. If a T5 file lacks the key, the default depends on
// pooling_type. Converters do not write pooling_type for T5, and the attention of such files is bidirectional. Files
// with pooling_type, such as the test suite's golden files, were made for llama.cpp, where the default is causal.
Status read_causal(const MetadataReader& read, const EncoderTraits& traits, TextEncoderParams& params) {
  constexpr std::string_view kKey = "attention.causal";
  if (traits.positions != Positions::kBuckets) return read.refuse_unless(kKey, 0, "causal attention in an encoder");
  auto causal = read.boolean(kKey, read.has("pooling_type"));
  if (!causal) return causal.error();
  params.causal = *causal;
  return {};
}

Status read_sizes(const GgufFile& file, const MetadataReader& read, const EncoderTraits& traits,
                  TextEncoderParams& params) {
  HyperParams& base = params.base;
  Reading reading;
  reading.set(base.context_length, read.integer("context_length", 1, kMaxContext));
  reading.set(base.n_embd, read.integer("embedding_length", 1, kMaxWidth));
  reading.set(base.n_layers, read.integer("block_count", 1, kMaxEncoderLayers));
  reading.set(params.n_ff, read.integer("feed_forward_length", 1, kMaxWidth));
  reading.set(params.n_heads, read.integer("attention.head_count", 1, kMaxHeads));
  reading.set(base.norm_eps, read.number(traits.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                                       : "attention.layer_norm_epsilon",
                                         1e-30, 1.0));
  if (!reading.status()) return reading.status();
  reading.set(params.n_kv_heads, read.integer("attention.head_count_kv", 1, params.n_heads, params.n_heads));
  reading.set(params.head_dim, read.integer("attention.key_length", 1, kMaxHeadDim, base.n_embd / params.n_heads));
  if (!reading.status()) return reading.status();
  int value_dim = 0;
  reading.set(value_dim, read.integer("attention.value_length", 1, kMaxHeadDim, params.head_dim));
  if (!reading.status()) return reading.status();
  if (value_dim != params.head_dim)
    return Error{ErrorCode::kUnsupported, "'" + read.key("attention.value_length") + "' is " +
                                              std::to_string(value_dim) + ", expected the key length, " +
                                              std::to_string(params.head_dim)};
  if (params.n_heads % params.n_kv_heads != 0)
    return Error{ErrorCode::kInvalidFile, "'" + read.key("attention.head_count") + "' is " +
                                              std::to_string(params.n_heads) + ", expected a multiple of " +
                                              std::to_string(params.n_kv_heads) + " key and value heads"};
  const GgufTensor* const table = file.tensor("token_embd.weight");
  if (table == nullptr) return Error{ErrorCode::kInvalidFile, "tensor 'token_embd.weight' is missing"};
  if (table->shape[1] < 1 || table->shape[1] > kMaxVocabulary)
    return Error{ErrorCode::kInvalidFile, "tensor 'token_embd.weight' has " + std::to_string(table->shape[1]) +
                                              " rows, expected 1 to " + std::to_string(kMaxVocabulary)};
  base.n_vocab = static_cast<int>(table->shape[1]);
  return {};
}

Status read_positions(const GgufFile& file, const MetadataReader& read, const EncoderTraits& traits, int max_context,
                      TextEncoderParams& params) {
  HyperParams& base = params.base;
  switch (traits.positions) {
    case Positions::kLearned: base.n_positions = base.context_length; return {};
    case Positions::kAlibi: params.max_alibi_bias = 8; return {};
    case Positions::kBuckets: {
      auto buckets = read.integer("attention.relative_buckets_count", 4, kMaxBuckets);
      if (!buckets) return buckets.error();
      if (*buckets % 4 != 0)
        return Error{ErrorCode::kInvalidFile, "'" + read.key("attention.relative_buckets_count") + "' is " +
                                                  std::to_string(*buckets) + ", expected a multiple of 4"};
      params.n_buckets = *buckets;
      return {};
    }
    case Positions::kRope: break;
  }
  params.rotates = true;
  params.rope_style = traits.rope_style;
  auto n_dims = read.integer("rope.dimension_count", 2, params.head_dim, params.head_dim);
  if (!n_dims) return n_dims.error();
  if (*n_dims % 2 != 0 || params.head_dim % *n_dims != 0)
    return Error{ErrorCode::kUnsupported, "'" + read.key("rope.dimension_count") + "' is " + std::to_string(*n_dims) +
                                              ", expected an even divisor of the head size, " +
                                              std::to_string(params.head_dim)};
  auto rope = read_rope_frequencies(file, base.architecture_name, *n_dims, base.context_length, max_context, false);
  if (!rope) return rope.error();
  params.rope = params.windowed_rope = std::move(*rope);
  if (traits.window_period == 0) return read.refuse_unless("attention.sliding_window", 0, "a sliding window");
  auto window = read.integer("attention.sliding_window", 0, kMaxContext, 0);
  if (!window) return window.error();
  if (*window == 0) return {};
  params.window_reach = *window / 2;
  if (read.has("rope.freq_base_swa")) {
    auto windowed = read_rope_frequencies(file, base.architecture_name, *n_dims, base.context_length, max_context,
                                          false, YarnLog::kRefused, "rope.freq_base_swa");
    if (!windowed) return windowed.error();
    params.windowed_rope = std::move(*windowed);
  } else if (traits.name == "gemma-embedding") {
    params.windowed_rope.inverse_frequency.clear();
    for (const double frequency : plain_rope_frequencies(*n_dims, kDefaultRopeBase))
      params.windowed_rope.inverse_frequency.push_back(static_cast<float>(frequency));
  }
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (read.is_array(kPattern)) {
    auto windowed = read.flags(kPattern);
    if (!windowed) return windowed.error();
    if (windowed->size() < params.layers.size())
      return Error{ErrorCode::kInvalidFile, "'" + read.key(kPattern) + "' has " + std::to_string(windowed->size()) +
                                                " values for " + std::to_string(params.layers.size()) + " layers"};
    for (size_t i = 0; i < params.layers.size(); ++i) params.layers[i].windowed = (*windowed)[i];
    return {};
  }
  auto period = read.integer(kPattern, 1, kMaxEncoderLayers, traits.window_period);
  if (!period) return period.error();
  for (int i = 0; i < base.n_layers; ++i)
    params.layers[static_cast<size_t>(i)].windowed =
        traits.full_layers_first ? i % *period != 0 : i % *period < *period - 1;
  return {};
}

Status read_network(const GgufFile& file, const MetadataReader& read, const EncoderTraits& traits,
                    TextEncoderParams& params) {
  params.network = traits.network;
  params.activation = traits.activation;
  if (traits.activation_key) {
    auto name = read.string("hidden_act", "gelu");
    if (!name) return name.error();
    if (*name == "silu")
      params.activation = Activation::kSilu;
    else if (*name != "gelu")
      return Error{ErrorCode::kUnsupported,
                   "'" + read.key("hidden_act") + "' is " + in_quotes(*name) + ", expected 'gelu' or 'silu'"};
  }
  if (traits.optional_gate) {
    const GgufTensor* const up = file.tensor(layer_name(traits, 0, "ffn_up.weight"));
    if (file.tensor(layer_name(traits, 0, "ffn_gate.weight")) != nullptr)
      params.network = EncoderNetwork::kGated;
    else if (up != nullptr && up->shape[1] == 2 * int64_t{params.n_ff})
      params.network = EncoderNetwork::kFusedGated;
    params.relu = params.network == EncoderNetwork::kPlain && traits.positions == Positions::kBuckets;
  }
  if (!traits.experts) return read.refuse_unless("expert_count", 0, "a mixture of experts");
  ExpertParams& experts = params.base.experts;
  Reading reading;
  int every = 0;
  float scale = 0;
  reading.set(every, read.integer("moe_every_n_layers", 0, kMaxEncoderLayers, 0));
  reading.set(experts.count, read.integer("expert_count", 0, kMaxExperts, 0));
  reading.set(scale, read.number("expert_weights_scale", 0, 1e6, 0.0));
  if (!reading.status()) return reading.status();
  if (every < 2 || experts.count == 0) {
    experts = {};
    return {};
  }
  reading.set(experts.used, read.integer("expert_used_count", 1, experts.count));
  if (!reading.status()) return reading.status();
  experts.n_ff = params.n_ff;
  experts.gateless = true;
  experts.router = {.normalized = false, .scale = scale > 0 ? scale : 1.0f};
  for (int i = 0; i < params.base.n_layers; ++i) params.layers[static_cast<size_t>(i)].mixture = i % every == 1;
  return {};
}

// Returns the number of rows of the token-type table, or 0 if the file has no table. A missing table is an error if the
// file declares two or more token types. A file that declares one type may lack the table, because converters also
// write 1 for models without token types.
Result<int> read_token_types(const GgufFile& file) {
  if (const GgufTensor* const types = file.tensor("token_types.weight"))
    return static_cast<int>(std::clamp<int64_t>(types->shape[1], 0, kMaxWidth));
  auto declared = file.unsigned_integer("tokenizer.ggml.token_type_count");
  if (!declared) return declared.error();
  if (declared->value_or(0) > 1)
    return Error{ErrorCode::kInvalidFile,
                 "tensor 'token_types.weight' is missing, but "
                 "'tokenizer.ggml.token_type_count' is " +
                     std::to_string(**declared)};
  return 0;
}

// Sets the parameters that depend on which optional tensors the file contains.
Status read_carried(const GgufFile& file, const EncoderTraits& traits, TextEncoderParams& params) {
  HyperParams& base = params.base;
  const auto carried = [&](std::string_view name) {
    for (int i = 0; i < base.n_layers; ++i)
      if (file.tensor(layer_name(traits, i, name)) != nullptr) return true;
    return false;
  };
  params.fused_qkv = carried("attn_qkv.weight");
  base.qkv_bias = carried("attn_q.bias") || carried("attn_qkv.bias");
  base.attention_bias = carried(std::string(traits.attention_output) + ".bias");
  base.gate_bias = carried("ffn_gate.bias");
  base.up_bias = carried("ffn_up.bias");
  base.down_bias = carried("ffn_down.bias");
  base.norm_bias = carried("attn_output_norm.bias") || carried("attn_norm.bias");
  params.qk_norm = traits.qk_norm_optional && !carried("attn_q_norm.weight") ? EncoderQkNorm::kNone : traits.qk_norm;
  if (traits.token_types) {
    auto n_types = read_token_types(file);
    if (!n_types) return n_types.error();
    params.n_token_types = *n_types;
    auto pairs = file.boolean(kPairTypesKey);
    if (!pairs) return pairs.error();
    auto separator = file.unsigned_integer(kSeparatorKey);
    if (!separator) return separator.error();
    if (pairs->value_or(false) && params.n_token_types > 1 && *separator && **separator <= INT32_MAX)
      params.pair_separator = static_cast<int>(**separator);
  }
  for (int i = 0; i < base.n_layers; ++i) {
    EncoderLayerParams& layer = params.layers[static_cast<size_t>(i)];
    layer.first_norm =
        !traits.first_norm_optional || i > 0 || file.tensor(layer_name(traits, i, "attn_norm.weight")) != nullptr;
    layer.own_bias = params.n_buckets > 0 && (i == 0 || file.tensor(layer_name(traits, i, kBiasName)) != nullptr);
    layer.second_norm = !params.pre_norms && file.tensor(layer_name(traits, i, "attn_norm_2.weight")) != nullptr;
  }
  return {};
}

// Fills in base.layers. Encoders do not use it, but ModelInfo is built from it.
void describe_layers(TextEncoderParams& params) {
  LayerParams layer;
  layer.n_heads = params.n_heads;
  layer.n_kv_heads = params.n_kv_heads;
  layer.key_dim = layer.value_dim = params.head_dim;
  layer.n_ff = params.n_ff;
  params.base.layers.assign(params.layers.size(), layer);
}

int bucket_of(int distance, int n_buckets) {
  const int half = n_buckets / 2, exact = half / 2;
  const int side = distance > 0 ? half : 0;
  distance = std::abs(distance);
  if (distance < exact) return side + distance;
  const float steps = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      std::log(static_cast<float>(kFarthestBucket) / static_cast<float>(exact)) *
                      static_cast<float>(half - exact);
  return side + std::clamp(exact + static_cast<int>(std::floor(steps)), exact, half - 1);
}

}  // namespace

Result<TextEncoderParams> TextEncoderParams::read(const GgufFile& file, int max_context) {
  const EncoderTraits* const found = find_encoder(file);
  if (found == nullptr)
    return Error{ErrorCode::kUnsupported, "the architecture is not a text encoder (known: " + known_encoders() + ")"};
  const EncoderTraits& traits = *found;
  TextEncoderParams params{};
  HyperParams& base = params.base;
  base.architecture_name = traits.name;
  base.norm = traits.norm;
  base.embedding_norm = traits.embedding_norm;
  params.layer_prefix = traits.layer_prefix;
  params.attention_output_name = traits.attention_output;
  params.final_norm_name = traits.final_norm;
  params.pre_norms = traits.pre_norms;
  params.branch_norms = traits.branch_norms;
  const MetadataReader read(file, traits.name);
  if (Status s = read_causal(read, traits, params); !s) return s.error();
  if (Status s = read_sizes(file, read, traits, params); !s) return s.error();
  if (static_cast<size_t>(base.n_layers) > file.tensors().size())
    return Error{ErrorCode::kInvalidFile, "'" + read.key("block_count") + "' is " + std::to_string(base.n_layers) +
                                              ", but the file has only " + std::to_string(file.tensors().size()) +
                                              " tensors"};
  params.layers.resize(static_cast<size_t>(base.n_layers));
  params.max_tokens = max_context > 0 ? std::min(max_context, base.context_length) : base.context_length;
  if (traits.embedding_root) base.embedding_scale = std::sqrt(static_cast<float>(base.n_embd));
  params.attention_scale = traits.scores_unscaled ? 1.0f : 1.0f / std::sqrt(static_cast<float>(params.head_dim));
  if (Status s = read_positions(file, read, traits, max_context, params); !s) return s.error();
  if (Status s = read_network(file, read, traits, params); !s) return s.error();
  if (Status s = read_carried(file, traits, params); !s) return s.error();
  describe_layers(params);
  auto pooling = read_pooling(file, traits.name, Pooling::kMean);
  if (!pooling) return pooling.error();
  // An encoder always produces a vector, so mean pooling replaces a pooling_type of 0 (none).
  base.pooling = *pooling == Pooling::kNone ? Pooling::kMean : *pooling;
  return params;
}

bool is_text_encoder(const GgufFile& file) { return find_encoder(file) != nullptr; }

std::string known_encoders() {
  std::string names;
  for (const EncoderTraits& traits : kEncoders) names += (names.empty() ? "" : ", ") + std::string(traits.name);
  return names;
}

std::vector<float> position_bias(const TextEncoderParams& params, const std::vector<float>& buckets) {
  const int reach = params.max_tokens - 1;
  const auto n_heads = static_cast<size_t>(params.n_heads), width = static_cast<size_t>(2 * reach + 1);
  std::vector<float> bias(n_heads * width);
  for (size_t head = 0; head < n_heads; ++head) {
    const float slope =
        params.max_alibi_bias > 0 ? alibi_slope(params.max_alibi_bias, static_cast<int>(head), params.n_heads) : 0;
    for (size_t i = 0; i < width; ++i) {
      const int distance = static_cast<int>(i) - reach;
      bias[head * width + i] =
          params.n_buckets > 0 ? buckets[static_cast<size_t>(bucket_of(distance, params.n_buckets)) * n_heads + head]
                               : -slope * static_cast<float>(std::abs(distance));
    }
  }
  return bias;
}

}  // namespace monolith
