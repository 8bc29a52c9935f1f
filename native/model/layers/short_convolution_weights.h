// Weights of a short convolution block.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct ShortConvolutionWeights {
  NormWeights norm;
  // Parts of one tensor: the gate of the convolution's input, the gate of its output, and the input itself.
  std::unique_ptr<Matrix> before, after, input;
  const float* convolution = nullptr;  // Shape [n_embd][taps].
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(ShortConvolutionWeights& weights, WeightList& list);

}  // namespace monolith
