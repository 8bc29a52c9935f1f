// What a state space of Mamba-2 needs of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

struct Mamba2Weights {
  NormWeights norm;
  std::unique_ptr<Matrix> gate, mixed, step;  // of one tensor: z; x, B and C; the heads' steps
  const float* convolution = nullptr;         // [channels][taps]
  const float* convolution_bias = nullptr;
  const float* rate = nullptr;  // these three [n_heads]
  const float* step_bias = nullptr;
  const float* skip = nullptr;
  const float* out_norm = nullptr;  // [groups][width / groups]; null: none
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(Mamba2Weights& weights, WeightList& list);

}  // namespace monolith
