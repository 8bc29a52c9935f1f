// What a feed-forward network that all rows pass needs of a file, and what surrounds any feed-forward part.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct NetworkWeights {
  std::unique_ptr<Matrix> gate, up, down;  // no gate: a plain network
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
};

// With a gate or without, as the layer is.
void list_weights(const LayerParams& layer, NetworkWeights& weights, WeightList& list);

}  // namespace monolith
