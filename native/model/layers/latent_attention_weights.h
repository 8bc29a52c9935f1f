// What latent attention needs of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Null where the network has none.
struct LatentAttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q;         // of queries at once,
  std::unique_ptr<Matrix> q_a, q_b;  // or by way of q_rank numbers
  const float* q_a_norm = nullptr;
  std::unique_ptr<Matrix> kv_a;      // a row of latents
  const float* kv_a_norm = nullptr;  // [rank]
  std::unique_ptr<Matrix> k_b, v_b;  // of each head, HeadProducts::weight
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
  // Of the layer's own index of positions: queries from q_rank numbers, a key, and how much each query counts.
  std::unique_ptr<Matrix> index_q, index_k, index_weights;
  const float* index_norm = nullptr;
  const float* index_norm_bias = nullptr;
};

void list_weights(const LayerParams& layer, LatentAttentionWeights& weights, WeightList& list);

}  // namespace monolith
