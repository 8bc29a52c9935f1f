// What a file of architecture "eagle3" says about its head: one layer that guesses tokens for another model from what three
// of that model's layers have left (EAGLE-3, Li et al. 2025, arXiv:2503.01840; the layout is llama.cpp's). Read once; any
// thread.
#pragma once

#include <array>
#include <string>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/model.h"

namespace monolith {

struct EagleParams {
  // The head as a network of one layer with attention: n_embd is its own width, n_vocab the tokens it has logits for.
  HyperParams own{};
  static constexpr int kSources = 3;
  // It reads the residual stream as it enters these layers of the model; the number of layers stands for what the last leaves.
  std::array<int, kSources> sources{};
  int64_t source_dim = 0;                        // the model's n_embd
  int64_t n_tokens = 0;                          // and n_vocab
  bool norm_before_fc = false;                   // all of what is read passes a norm, as one row
  bool norm_before_residual = false;             // the hidden row is added to past its norm
  bool own_embedding = false, own_head = false;  // else the model's
  bool chosen_tokens = false;                    // d2t says which tokens its logits are of

  int64_t sources_dim() const { return kSources * source_dim; }
};

// Whether a file is such a head.
bool is_eagle_head(const GgufFile& file);

// Makes the head in `file` what guesses for the model of `params`, whose layers it is put behind. `max_context`: of a
// sequence. Errors: kInvalidFile (keys missing or out of range), kInvalidArgument or kUnsupported where it does not fit the
// model: its width, layers or vocabulary.
Status add_eagle_head(const GgufFile& file, int max_context, HyperParams& params);

}  // namespace monolith
