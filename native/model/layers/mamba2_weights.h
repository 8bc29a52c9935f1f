// Weights of a Mamba-2 block.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct Mamba2Weights {
  NormWeights norm;
  std::unique_ptr<Matrix> gate, mixed, step;  // Parts of one tensor: z; x, B and C; the time steps of the heads.
  const float* convolution = nullptr;         // Shape [channels][taps].
  const float* convolution_bias = nullptr;
  const float* rate = nullptr;  // This and the following two vectors: [n_heads].
  const float* step_bias = nullptr;
  const float* skip = nullptr;
  const float* out_norm = nullptr;  // [groups][width / groups]; null: no norm.
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(Mamba2Weights& weights, WeightList& list);

}  // namespace monolith
