// What a delta net needs of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Null where the network's kind has none.
struct DeltaNetWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> mixed;        // queries, keys and values in one
  std::unique_ptr<Matrix> q, k, v;      // or each by itself
  std::unique_ptr<Matrix> gate, decay;  // of the result; from the row, or from what the two below make of it
  std::unique_ptr<Matrix> gate_low, decay_low;
  std::unique_ptr<Matrix> beta;
  const float* convolution = nullptr;    // [channels][taps], of all channels
  const float* q_convolution = nullptr;  // or each by itself
  const float* k_convolution = nullptr;
  const float* v_convolution = nullptr;
  const float* decay_bias = nullptr;
  const float* rate = nullptr;      // [n_value_heads]
  const float* out_norm = nullptr;  // [value_dim]
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(const LayerParams& layer, DeltaNetWeights& weights, WeightList& list);

}  // namespace monolith
