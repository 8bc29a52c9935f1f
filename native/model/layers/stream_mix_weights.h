// What the mixing of residual streams (StreamMix) needs of a file, around each part and behind the last layer.
#pragma once

#include <memory>
#include <string_view>

#include "backend/matrix.h"

namespace monolith {

class WeightList;

struct StreamMixWeights {
  std::unique_ptr<Matrix> numbers;  // [StreamMix::numbers(), n_streams * n_embd]
  const float* scale = nullptr;     // [3], or where streams are only read [1]
  const float* base = nullptr;      // [numbers()]
};

// `stem`: of the tensors' names.
void list_weights(std::string_view stem, bool reads_only, StreamMixWeights& weights, WeightList& list);

}  // namespace monolith
