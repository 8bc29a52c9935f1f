// What a model file holds and what loading it would take, from the same functions that load it.
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

// Facts about a model that can run here. Strings are UTF-8 as far as the file's are.
struct ModelInfo {
  std::string architecture;
  std::optional<std::string> name;
  int64_t parameters = 0;  // values of all tensors but derived ones (rope_freqs)
  int context_length = 0;  // of the file
  int guess_layers = 0;    // of the file, behind the others: they guess tokens
  int layers = 0, heads = 0, kv_heads = 0, head_dim = 0, embedding = 0;
  int feed_forward = 0;               // of each expert where there are any
  int experts = 0, used_experts = 0;  // of a layer, and of these for each token; 0: none
  int vocabulary = 0;
  std::string quantization;  // the type most parameters have
  std::optional<std::string> chat_template;
  std::optional<std::string> bos, eos;  // spellings
  std::vector<TokenId> end_of_generation;
  std::vector<std::string> special_tokens;  // spellings of control tokens, and of user-defined ones
                                            // that begin with '<' or '['
};

Result<ModelInfo> model_info(const GgufFile& file, const HyperParams& params, const Tokenizer& tokenizer);

struct InspectedValue {
  std::string key;
  std::string type;                                               // "uint32", "string", "array of float32", ...
  std::variant<std::monostate, std::string, double, bool> value;  // monostate for arrays and what does not decode
  uint64_t count = 1;                                             // of arrays
};

struct InspectedTensor {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;  // row length first
  uint64_t bytes = 0;
};

struct InspectedPlan {
  MemoryPlan memory;
  int64_t pages = 0;
  int slots = 0;  // of recurrent state; 0: the model has none
  int context = 0;
  double filled = 1;  // what of the pages' bytes layers keep something in

  // Of a model with these limits, planned or loaded.
  static InspectedPlan of(const MemoryPlan& memory, const ModelLimits& limits, const HyperParams& params) {
    return {.memory = memory,
            .pages = limits.n_pages,
            .slots = memory.slot_bytes > 0 ? limits.n_slots : 0,
            .context = limits.max_context,
            .filled = monolith::filled(params, memory.layout)};
  }
};

struct Inspection {
  uint64_t file_bytes = 0;
  std::string file_hash;  // hash_text(file_hash())
  std::vector<InspectedValue> metadata;
  std::vector<InspectedTensor> tensors;
  std::optional<ModelInfo> model;  // empty if this build cannot run the file; `reason` says why
  std::string reason;
  std::optional<InspectedPlan> plan;
};

// `limits` gives batch size, logit rows and KV type; context and pages are chosen from
// `max_context` and `kv_bytes` by choose_limits(). Reads the file, allocates no model. Errors:
// those of open_model_file.
Result<Inspection> inspect(const std::string& path, const Backend& backend, const ModelLimits& limits, int max_context,
                           uint64_t kv_bytes, const ModelFileOptions& options = {});

}  // namespace monolith
