// What attention needs of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Vectors are memory of the backend; null where the network has none.
struct AttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q, k, v, output;
  std::unique_ptr<Matrix> gate;  // LayerParams::output_gate
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* output_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* sinks = nullptr;        // [n_heads]
  std::unique_ptr<Matrix> head_gates;  // [n_heads, n_embd]
  NormWeights post_norm;
};

void list_weights(const LayerParams& layer, AttentionWeights& weights, WeightList& list);

}  // namespace monolith
