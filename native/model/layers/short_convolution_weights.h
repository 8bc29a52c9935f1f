// What a short convolution needs of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct ShortConvolutionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> before, after, input;  // of one tensor: what scales the input, and the result
  const float* convolution = nullptr;            // [n_embd][taps]
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(ShortConvolutionWeights& weights, WeightList& list);

}  // namespace monolith
