// Describes a model file and the memory that loading it would require, using the same functions as the loader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "formats/hf/model_file.h"
#include "model/model.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// How an embedding model or a reranker processes texts.
struct EmbeddingInfo {
  int dimensions = 0;  // Number of values per text: dimensions of the embedding, or number of scores.
  Pooling pooling = Pooling::kNone;
  bool is_encoder = false;          // The model is a text encoder and cannot generate text.
  int max_tokens = 0;               // Maximum number of tokens per text.
  std::vector<std::string> labels;  // Names of a reranker's scores; empty if the file does not specify them.
  // Special tokens that EncodeOptions::add_special adds before and after a text.
  std::vector<TokenId> prefix, suffix;
  TokenId separator = kNoToken;  // Token between the two texts of a pair; kNoToken if the file does not specify it.
};

// Properties of a model that this build can run. Strings are copied from the file and may be invalid UTF-8.
struct ModelInfo {
  std::string architecture;
  std::optional<std::string> name;
  int64_t parameters = 0;  // Number of values in all tensors except derived ones (rope_freqs).
  int context_length = 0;  // As specified in the file.
  int mtp_layers = 0;      // Number of MTP layers in the file.
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0, embedding = 0;
  int feed_forward = 0;               // Feed-forward dimension; for MoE models, that of one expert.
  int experts = 0, used_experts = 0;  // Experts per layer, and experts used per token; 0 = not an MoE model.
  int vocabulary = 0;
  std::string quantization;  // The tensor type of most parameters.
  std::optional<std::string> chat_template;
  std::optional<std::string> bos, eos;  // Text of these tokens.
  std::vector<TokenId> end_of_generation;
  // Spellings of all control tokens, and of user-defined tokens that begin with '<' or '['.
  std::vector<std::string> special_tokens;
  std::optional<EmbeddingInfo> embeddings;  // Not set if the model only generates text.
};

// Returns nullopt if the pooling is kNone.
Result<std::optional<EmbeddingInfo>> embedding_info(const GgufFile& file, const PoolingHead& head, bool is_encoder,
                                                    int max_tokens, const Tokenizer& tokenizer);
Result<ModelInfo> model_info(const GgufFile& file, const HyperParams& params, const Tokenizer& tokenizer);

struct InspectedValue {
  std::string key;
  std::string type;  // "uint32", "string", "array of float32", ...
  // Holds std::monostate for arrays and for values that cannot be decoded.
  std::variant<std::monostate, std::string, double, bool> value;
  uint64_t count = 1;  // Number of elements of an array.
};

struct InspectedTensor {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;  // Row length first.
  uint64_t bytes = 0;
};

struct InspectedPlan {
  MemoryPlan memory;
  int64_t pages = 0;
  int slots = 0;  // Recurrent-state slots; 0 = the model has no recurrent state.
  int context = 0;
  double filled = 1;  // Fraction of page memory that holds data; 1 = no padding.

  // Describes the memory plan of a model with these limits. The model need not be loaded.
  static InspectedPlan of(const MemoryPlan& memory, const ModelLimits& limits, const HyperParams& params) {
    return {.memory = memory,
            .pages = limits.n_pages,
            .slots = memory.slot_bytes > 0 ? limits.n_slots : 0,
            .context = limits.max_context,
            .filled = monolith::filled(params, memory.layout)};
  }
  // Returns the plan of a text encoder, which has no KV pages.
  static InspectedPlan of_encoder(const MemoryPlan& memory, int max_tokens) {
    InspectedPlan plan{.memory = memory, .context = max_tokens};
    plan.memory.layout.full = 0;
    return plan;
  }
};

struct Inspection {
  uint64_t file_bytes = 0;
  std::string file_hash;  // hash_text(file_hash()).
  std::vector<InspectedValue> metadata;
  std::vector<InspectedTensor> tensors;
  std::optional<ModelInfo> model;  // Empty if this build cannot run the file; `reason` then holds the error.
  std::string reason;
  std::optional<InspectedPlan> plan;
};

// Describes a model file without loading the model. `limits` specifies the batch size, the number of logit rows and the
// KV cache type. choose_limits() derives the context length and the number of pages from `max_context` and `kv_bytes`.
// Text encoders use only `max_context`.
Inspection inspect(const GgufFile& file, Backend& backend, const ModelLimits& limits, int max_context,
                   uint64_t kv_bytes);
// Opens the file at `path` and inspects it. Returns the errors of open_model_file().
Result<Inspection> inspect(const std::string& path, Backend& backend, const ModelLimits& limits, int max_context,
                           uint64_t kv_bytes, const ModelFileOptions& options = {});

}  // namespace monolith
