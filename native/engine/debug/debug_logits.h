// For debugging: computes a model file's full logits for given token IDs, and a greedy continuation. Uses neither a
// tokenizer nor the scheduler, only a single sequence with its own pages. Not optimized for speed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/result.h"
#include "formats/hf/model_file.h"
#include "model/model.h"

namespace monolith {

struct DebugLogitsOptions {
  CpuBackendOptions backend;  // Threads, instruction set and arithmetic.
  KvType kv_type = KvType::kF16;
  int max_batch_tokens = 256;  // Maximum size of a prefill chunk, in tokens.
  // Context length, which selects between LongRoPE's frequencies for short and long contexts. 0 = the length of the
  // prompt plus the continuation.
  int max_context = 0;
  ModelFileOptions file = {};
};

struct PositionLogits {
  int position;
  std::vector<float> logits;  // Shape [n_vocab]: predicts the token after `position`.
};

struct DebugLogits {
  struct Continuation {
    std::vector<int32_t> tokens;  // The tokens with the largest logit; among equal logits, the one with the lowest ID.
    std::vector<float> logits;    // The logit of each chosen token.
    PositionLogits last;          // The logits from which the last token was chosen.
  };
  std::vector<PositionLogits> positions;     // Logits at the requested positions, in the requested order.
  std::optional<Continuation> continuation;  // The greedy continuation, if continue_tokens > 0.
};

// `ids`: the prompt, at least one token. `positions`: each in [0, ids.size()), in any order. Errors: kInvalidArgument,
// naming the argument and index; kTooLong if prompt and continuation exceed the file's context or options.max_context;
// kInternal if a logit is not finite; also the errors of open_model_file() and Model::load(). All messages start with
// the path, except those about the backend options.
Result<DebugLogits> debug_logits(const std::string& path, const DebugLogitsOptions& options,
                                 std::span<const int32_t> ids, std::span<const int32_t> positions, int continue_tokens);
// Runs on `backend` and ignores options.backend.
Result<DebugLogits> debug_logits(const std::string& path, Backend& backend, const DebugLogitsOptions& options,
                                 std::span<const int32_t> ids, std::span<const int32_t> positions, int continue_tokens);

}  // namespace monolith
