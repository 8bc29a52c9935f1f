// Parameters of an EAGLE-3 head, read from a file of architecture "eagle3": one layer that drafts tokens for another
// model from the hidden states of three of its layers (Li et al. 2025, arXiv:2503.01840; file layout as in llama.cpp).
// Immutable after reading; may be used from any thread.
#pragma once

#include <array>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/model.h"

namespace monolith {

struct EagleParams {
  // The head, described as a one-layer attention model. n_embd is the head's own width, and n_vocab is the number of
  // its logits.
  HyperParams own{};
  static constexpr int kSources = 3;
  // The layers of the target model whose input (the residual stream) the head reads. A value of n_layers means the
  // output of the last layer.
  std::array<int, kSources> sources{};
  int64_t source_dim = 0;             // n_embd of the target model.
  int64_t n_tokens = 0;               // n_vocab of the target model.
  bool norm_before_fc = false;        // The concatenated hidden states pass through a norm before the fusion matrix.
  bool norm_before_residual = false;  // The residual connection starts from the normalized hidden state.
  // If false, the head uses the target model's embedding table or output matrix.
  bool own_embedding = false, own_head = false;
  bool chosen_tokens = false;  // Tensor d2t lists the token IDs of the logits.

  int64_t sources_dim() const { return kSources * source_dim; }
};

// Returns true if the file contains an EAGLE-3 head.
bool is_eagle_head(const GgufFile& file);

// Attaches the head in `file` to the model described by `params`, after the model's layers. `max_context` is the
// maximum number of positions per sequence. Errors: kInvalidFile (keys missing or out of range); kInvalidArgument or
// kUnsupported if the head's width, layers or vocabulary do not match the model.
Status add_eagle_head(const GgufFile& file, int max_context, HyperParams& params);

}  // namespace monolith
