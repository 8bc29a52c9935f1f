// What inputs of each layer's own need of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Of all layers.
struct PerLayerTables {
  std::unique_ptr<Matrix> embedding;   // [n_vocab, n_layers * dim]
  std::unique_ptr<Matrix> projection;  // [n_layers * dim, n_embd]
  const float* norm = nullptr;         // [dim]
};
// Of one.
struct PerLayerInputWeights {
  std::unique_ptr<Matrix> gate;        // [dim, n_embd]
  std::unique_ptr<Matrix> projection;  // [n_embd, dim]
  NormWeights post_norm;
};

// Nothing where the network has none.
void list_weights(PerLayerTables& weights, WeightList& list);
void list_weights(PerLayerInputWeights& weights, WeightList& list);

}  // namespace monolith
