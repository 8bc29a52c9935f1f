// Weights of hyper-connections (HyperConnections), around each block and after the last layer.
#pragma once

#include <memory>
#include <string_view>

#include "backend/matrix.h"

namespace monolith {

class WeightList;

struct StreamMixWeights {
  std::unique_ptr<Matrix> numbers;  // Shape [HyperConnections::numbers(), n_streams * n_embd].
  const float* scale = nullptr;     // [3], or [1] if the streams are only read.
  const float* base = nullptr;      // Shape [numbers()].
};

// `stem` is the prefix of the tensor names.
void list_weights(std::string_view stem, bool reads_only, StreamMixWeights& weights, WeightList& list);

}  // namespace monolith
