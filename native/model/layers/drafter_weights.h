// Weights for drafting tokens with MTP layers and EAGLE-3 heads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/matrix.h"
#include "model/eagle_params.h"
#include "model/layers/layer_weights.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights that an MTP layer has in addition to a regular layer's weights (mtp_layers.h).
struct DraftWeights {
  const float* token_norm = nullptr;
  const float* hidden_norm = nullptr;
  std::unique_ptr<Matrix> projection;  // Projection of the concatenated token embedding and hidden state.
  std::unique_ptr<Matrix> embedding;   // Null: the model's embedding table is used.
  std::unique_ptr<Matrix> head;        // Null: the model's output matrix is used.
  NormWeights head_norm;               // Null: the model's final norm is used.
};

// Adds the MTP tensors of the current layer of `list`.
void list_weights(DraftWeights& weights, WeightList& list);

// Weights of an EAGLE-3 head, from its own file (eagle_head.h).
struct EagleWeights {
  const float* sources_norm = nullptr;  // Used with EagleParams::norm_before_fc.
  std::unique_ptr<Matrix> fusion;       // Applied to the concatenated hidden states of the target model.
  const float* token_norm = nullptr;
  const float* hidden_norm = nullptr;
  LayerWeights layer;  // Its attention reads the token embedding and the hidden state, concatenated.
  NormWeights head_norm;
  std::unique_ptr<Matrix> embedding;  // If null, the target model's embedding table is used.
  std::unique_ptr<Matrix> head;       // Null: the target model's output matrix is used.
  std::vector<int32_t> tokens;        // Token IDs of the logits; empty: the whole vocabulary.
};

void list_weights(const EagleParams& params, EagleWeights& weights, WeightList& list);

}  // namespace monolith
