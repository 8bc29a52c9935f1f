// Weights of an MTP layer in addition to those of a regular layer (mtp_layers.h).
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct DraftWeights {
  const float* token_norm = nullptr;
  const float* hidden_norm = nullptr;
  std::unique_ptr<Matrix> projection;  // Projection of the concatenated token embedding and hidden state.
  std::unique_ptr<Matrix> embedding;   // Null: the model's embedding table is used.
  std::unique_ptr<Matrix> head;        // Null: the model's output matrix is used.
  NormWeights head_norm;               // Null: the model's final norm is used.
};

// Lists the tensors of the layer that `list` has entered.
void list_weights(DraftWeights& weights, WeightList& list);

}  // namespace monolith
