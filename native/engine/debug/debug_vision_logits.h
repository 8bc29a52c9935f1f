// Computes the text model's logits after the input sequence that debug_vision() has built, and a greedy continuation.
// Uses a single sequence with its own pages, without a scheduler. Not optimized for speed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/debug/debug_vision.h"

namespace monolith {

struct DebugVisionLogits {
  std::vector<float> logits;  // Logits after the last position of the sequence, [n_vocab].
  // The tokens with the largest logit (among equal logits, the one with the lowest ID), including end-of-generation
  // tokens.
  std::vector<int32_t> tokens;
  std::vector<float> margins;      // How far the logit of each chosen token is above the second-best.
  std::vector<float> last_logits;  // The logits from which the last token was chosen.
};

struct DebugVisionLogitsOptions {
  KvType kv_type = KvType::kF16;
  int max_batch_tokens = 256;  // Maximum number of tokens per step; larger if a bidirectional span needs it.
  ModelFileOptions file = {};
};

// `continue_tokens`: at least 1. Errors: kTooLong if the file's context is exceeded; also the errors of
// open_model_file() and Model::load(). Every message starts with the path.
Result<DebugVisionLogits> debug_vision_logits(const std::string& text_path, Backend& backend,
                                              const DebugVisionLogitsOptions& options, const DebugVision& vision,
                                              int continue_tokens);

}  // namespace monolith
