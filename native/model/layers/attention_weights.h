// Weights of an attention block.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Vectors are in the backend's memory. Weights that the model does not have are null.
struct AttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q, k, v, output;
  std::unique_ptr<Matrix> gate;  // See LayerParams::output_gate.
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* output_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* sinks = nullptr;        // Shape [n_heads].
  std::unique_ptr<Matrix> head_gates;  // Shape [n_heads, n_embd].
  NormWeights post_norm;
};

void list_weights(const LayerParams& layer, AttentionWeights& weights, WeightList& list);

}  // namespace monolith
