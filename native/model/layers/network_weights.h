// Weights of a dense feed-forward network, which is also used for shared experts.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct NetworkWeights {
  std::unique_ptr<Matrix> gate, up, down;  // `gate` is null for a network without a gate.
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
};

// Lists gate, up and down matrices; the gate only if the layer has one.
void list_weights(const LayerParams& layer, NetworkWeights& weights, WeightList& list);

}  // namespace monolith
