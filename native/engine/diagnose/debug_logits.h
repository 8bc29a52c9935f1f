// Full logits of a model file for given token ids, and a greedy continuation: for those who debug
// engines. Needs no tokenizer and no scheduler: one sequence over its own pages. Slow callers only.
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
  CpuBackendOptions backend;  // threads, isa, arithmetic
  KvType kv_type = KvType::kF16;
  int max_batch_tokens = 256;  // the prompt is fed in pieces of at most so many tokens
  // The context that is opened, which decides between the frequencies that LongRoPE keeps for short and long ones;
  // 0: as long as prompt and continuation.
  int max_context = 0;
  ModelFileOptions file = {};
};

struct PositionLogits {
  int position;
  std::vector<float> logits;  // [n_vocab]: the prediction of what follows that position
};

struct DebugLogits {
  struct Continuation {
    std::vector<int32_t> tokens;  // always the largest logit (the lowest id of equals)
    std::vector<float> logits;    // of each chosen token
    PositionLogits last;          // those that chose the last token
  };
  std::vector<PositionLogits> positions;     // in the order asked
  std::optional<Continuation> continuation;  // if continue_tokens > 0
};

// `ids`: the prompt, 1 or more. `positions`: each in [0, ids.size()), any order.
// Errors: kInvalidArgument names the argument and index; kTooLong if prompt and continuation exceed
// the file's context or options.max_context; kInternal if a logit is not finite; and those of open_model_file and
// Model::load. All begin with the path, but those of the backend's options.
Result<DebugLogits> debug_logits(const std::string& path, const DebugLogitsOptions& options,
                                 std::span<const int32_t> ids, std::span<const int32_t> positions, int continue_tokens);
// The same on `backend`; options.backend is not looked at.
Result<DebugLogits> debug_logits(const std::string& path, Backend& backend, const DebugLogitsOptions& options,
                                 std::span<const int32_t> ids, std::span<const int32_t> positions, int continue_tokens);

}  // namespace monolith
