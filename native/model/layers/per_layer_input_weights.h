// Weights of per-layer inputs.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights shared by all layers.
struct PerLayerTables {
  std::unique_ptr<Matrix> embedding;   // Shape [n_vocab, n_layers * dim].
  std::unique_ptr<Matrix> projection;  // Shape [n_layers * dim, n_embd].
  const float* norm = nullptr;         // Shape [dim].
};
// Weights of one layer.
struct PerLayerInputWeights {
  std::unique_ptr<Matrix> gate;        // Shape [dim, n_embd].
  std::unique_ptr<Matrix> projection;  // Shape [n_embd, dim].
  NormWeights post_norm;
};

// These functions list nothing if the model has no per-layer inputs.
void list_weights(PerLayerTables& weights, WeightList& list);
void list_weights(PerLayerInputWeights& weights, WeightList& list);

}  // namespace monolith
