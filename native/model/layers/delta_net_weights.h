// Weights of a delta-net block.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights that this kind of delta net does not have are null.
struct DeltaNetWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> mixed;    // Queries, keys and values in one matrix.
  std::unique_ptr<Matrix> q, k, v;  // Separate matrices for queries, keys and values.
  // Output gate and decay. They are computed from the layer's input or from the outputs of the two low-rank matrices
  // below.
  std::unique_ptr<Matrix> gate, decay;
  std::unique_ptr<Matrix> gate_low, decay_low;
  std::unique_ptr<Matrix> beta;
  const float* convolution = nullptr;    // [channels][taps], over all channels.
  const float* q_convolution = nullptr;  // Separate convolutions for queries, keys and values.
  const float* k_convolution = nullptr;
  const float* v_convolution = nullptr;
  const float* decay_bias = nullptr;
  const float* rate = nullptr;      // Shape [n_value_heads].
  const float* out_norm = nullptr;  // Shape [value_dim].
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
};

void list_weights(const LayerParams& layer, DeltaNetWeights& weights, WeightList& list);

}  // namespace monolith
