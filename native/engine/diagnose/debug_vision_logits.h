// What the text model makes of the sequence that debug_vision() has made: the logits behind it, and a greedy continuation.
// One sequence over its own pages, without a scheduler. Slow callers only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/diagnose/debug_vision.h"

namespace monolith {

struct DebugVisionLogits {
  std::vector<float> logits;       // behind the last position of the sequence: [n_vocab]
  std::vector<int32_t> tokens;     // always the largest logit (the lowest id of equals), end of generation included
  std::vector<float> margins;      // of each, its lead over the second
  std::vector<float> last_logits;  // those that chose the last one
};

struct DebugVisionLogitsOptions {
  KvType kv_type = KvType::kF16;
  int max_batch_tokens = 256;  // rows of a step; more where rows that see one another need them
  ModelFileOptions file = {};
};

// `continue_tokens` 1 or more. Errors: kTooLong (the file's context), and those of
// open_model_file and Model::load; all begin with the path.
Result<DebugVisionLogits> debug_vision_logits(const std::string& text_path, Backend& backend,
                                              const DebugVisionLogitsOptions& options, const DebugVision& vision,
                                              int continue_tokens);

}  // namespace monolith
