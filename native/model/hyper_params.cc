// What a GGUF file says about the shape of its network, checked so that all later arithmetic on it
// is safe: no product of two of these values overflows 64 bits.
#include <array>
#include <string>

#include "model/gguf/parser.h"
#include "model/metadata_reader.h"
#include "model/model.h"
#include "model/rope_frequencies.h"

namespace monolith {
namespace {

// Bounds are several times beyond the largest published models.
constexpr int64_t kMaxVocab = 1 << 22;
constexpr int64_t kMaxEmbedding = 1 << 17;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxFeedForward = 1 << 20;
constexpr int64_t kMaxContext = 1 << 27;

struct KnownArchitecture {
  std::string_view name;
  Architecture architecture;
  RopeStyle rope_style;
};

constexpr std::array kArchitectures = {
    KnownArchitecture{"llama", Architecture::kLlama, RopeStyle::kAdjacentPairs},
    KnownArchitecture{"qwen2", Architecture::kQwen2, RopeStyle::kHalves},
    KnownArchitecture{"qwen3", Architecture::kQwen3, RopeStyle::kHalves},
};

// Keys that change what a network computes, with the value that means "not used".
struct RefusedKey {
  std::string_view name;
  double harmless;
  std::string_view what;
};

constexpr std::array kRefusedKeys = {
    RefusedKey{"expert_count", 0, "a mixture of experts"},
    RefusedKey{"attn_logit_softcapping", 0, "a soft cap on attention scores"},
    RefusedKey{"final_logit_softcapping", 0, "a soft cap on logits"},
    RefusedKey{"router_logit_softcapping", 0, "a soft cap on router logits"},
    RefusedKey{"attention.scale", 0, "an attention scale of its own"},
    RefusedKey{"attention.clamp_kqv", 0, "clamping of queries, keys and values"},
    RefusedKey{"attention.max_alibi_bias", 0, "an ALiBi bias"},
    RefusedKey{"attention.causal", 1, "attention that is not causal"},
    RefusedKey{"attention.temperature_length", 0, "attention temperature by position"},
    RefusedKey{"attention.temperature_scale", 0, "attention temperature by position"},
    RefusedKey{"logit_scale", 1, "a scale on logits"},
    RefusedKey{"embedding_scale", 1, "a scale on embeddings"},
    RefusedKey{"residual_scale", 1, "a scale on residuals"},
    RefusedKey{"use_parallel_residual", 0, "a parallel residual"},
    RefusedKey{"rope.dimension_sections", 0, "RoPE in sections"},
    RefusedKey{"pooling_type", 0, "a pooled (embedding or reranking) model"},
};

Result<const KnownArchitecture*> read_architecture(const GgufFile& file) {
  auto name = file.string("general.architecture");
  if (!name) return name.error();
  if (!*name)
    return Error{ErrorCode::kInvalidFile, "metadata key 'general.architecture' is missing"};
  for (const KnownArchitecture& known : kArchitectures) {
    if (known.name == **name) return &known;
  }
  return Error{ErrorCode::kUnsupported,
               "architecture " + quoted(**name) + " is not supported (known: llama, qwen2, qwen3)"};
}

// The embedding table's rows decide; what the tokenizer and the vocab_size key say must agree.
Result<int> read_vocab(const GgufFile& file, const MetadataReader& read) {
  const GgufTensor* table = file.tensor("token_embd.weight");
  if (table == nullptr)
    return Error{ErrorCode::kInvalidFile, "tensor 'token_embd.weight' is missing"};
  const int64_t rows = table->shape[1];
  if (rows < 1 || rows > kMaxVocab) {
    return Error{ErrorCode::kInvalidFile, "tensor 'token_embd.weight' has " + std::to_string(rows) +
                                              " rows, expected 1 to " + std::to_string(kMaxVocab)};
  }
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->type == GgufValueType::kArray &&
      tokens->count != static_cast<uint64_t>(rows)) {
    return Error{ErrorCode::kInvalidFile, "'tokenizer.ggml.tokens' has " +
                                              std::to_string(tokens->count) +
                                              " tokens, but tensor 'token_embd.weight' has " +
                                              std::to_string(rows) + " rows"};
  }
  auto stated = read.integer("vocab_size", 1, kMaxVocab, rows);
  if (!stated) return stated;
  if (*stated != rows) {
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("vocab_size") + "' is " + std::to_string(*stated) +
                     ", but tensor 'token_embd.weight' has " + std::to_string(rows) + " rows"};
  }
  return stated;
}

Status refuse_what_is_not_computed(const GgufFile& file, const MetadataReader& read,
                                   int context_length) {
  for (const RefusedKey& refused : kRefusedKeys) {
    if (Status status = read.refuse_unless(refused.name, refused.harmless, refused.what); !status)
      return status;
  }
  // A window as long as the context hides nothing.
  auto window = read.number("attention.sliding_window", 0, 1e18, 0.0);
  if (!window) return window.error();
  if (*window > 0 && *window < context_length) {
    return read.refuse_unless("attention.sliding_window", 0, "a sliding attention window");
  }
  auto pieces = file.unsigned_integer("split.count");
  if (!pieces) return pieces.error();
  if (*pieces && **pieces > 1) {
    return Error{ErrorCode::kUnsupported,
                 "a model split into several files is not supported ('split.count' is " +
                     std::to_string(**pieces) + ")"};
  }
  return {};
}

}  // namespace

Result<HyperParams> HyperParams::read(const GgufFile& file) {
  auto known = read_architecture(file);
  if (!known) return known.error();
  HyperParams params{};
  params.architecture = (*known)->architecture;
  params.architecture_name = (*known)->name;
  params.rope_style = (*known)->rope_style;
  const MetadataReader read(file, params.architecture_name);

  // Assigns or remembers the first error, so that the list below reads as a list.
  Status failed;
  const auto set = [&failed](auto& field, auto&& result) {
    if (!failed) return;
    if (result) {
      field = static_cast<std::remove_reference_t<decltype(field)>>(*result);
    } else {
      failed = result.error();
    }
  };
  set(params.context_length, read.integer("context_length", 1, kMaxContext));
  if (!failed) return failed.error();
  if (Status status = refuse_what_is_not_computed(file, read, params.context_length); !status)
    return status.error();
  set(params.n_embd, read.integer("embedding_length", 1, kMaxEmbedding));
  set(params.n_layers, read.integer("block_count", 1, kMaxLayers));
  set(params.n_heads, read.integer("attention.head_count", 1, kMaxHeads));
  if (!failed) return failed.error();
  set(params.n_kv_heads, read.integer("attention.head_count_kv", 1, kMaxHeads, params.n_heads));
  if (!read.has("attention.key_length") && params.n_embd % params.n_heads != 0) {
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("embedding_length") + "' (" + std::to_string(params.n_embd) +
                     ") is not a multiple of '" + read.key("attention.head_count") + "' (" +
                     std::to_string(params.n_heads) + ")"};
  }
  set(params.head_dim,
      read.integer("attention.key_length", 2, kMaxHeadDim, params.n_embd / params.n_heads));
  set(params.n_ff, read.integer("feed_forward_length", 1, kMaxFeedForward));
  set(params.rms_eps, read.number("attention.layer_norm_rms_epsilon", 1e-30, 1.0));
  if (!failed) return failed.error();
  if (params.n_heads % params.n_kv_heads != 0) {
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("attention.head_count") + "' (" + std::to_string(params.n_heads) +
                     ") is not a multiple of '" + read.key("attention.head_count_kv") + "' (" +
                     std::to_string(params.n_kv_heads) + ")"};
  }
  int value_length = 0;
  set(value_length, read.integer("attention.value_length", 1, kMaxHeadDim, params.head_dim));
  set(params.rope_dims, read.integer("rope.dimension_count", 2, params.head_dim, params.head_dim));
  set(params.n_vocab, read_vocab(file, read));
  if (!failed) return failed.error();
  if (value_length != params.head_dim) {
    return Error{ErrorCode::kUnsupported,
                 "values of another length than keys are not supported ('" +
                     read.key("attention.value_length") + "' is " + std::to_string(value_length) +
                     ", keys have " + std::to_string(params.head_dim) + ")"};
  }
  if (params.rope_dims % 2 != 0) {
    return Error{ErrorCode::kInvalidFile, "'" + read.key("rope.dimension_count") + "' is " +
                                              std::to_string(params.rope_dims) + ", expected even"};
  }

  const bool is_llama = params.architecture == Architecture::kLlama;
  auto rope = read_rope_frequencies(file, params.architecture_name, params.rope_dims,
                                    params.context_length, is_llama);
  if (!rope) return rope.error();
  params.inverse_frequency = std::move(rope->inverse_frequency);
  params.rope_magnitude = rope->magnitude;
  params.tied_output = file.tensor("output.weight") == nullptr;
  params.qkv_bias =
      params.architecture == Architecture::kQwen2 || file.tensor("blk.0.attn_q.bias") != nullptr;
  params.qk_norm = params.architecture == Architecture::kQwen3;
  return params;
}

}  // namespace monolith
