// Weights of an MLA block.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights that the model does not have are null.
struct LatentAttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q;         // Full-rank query projection.
  std::unique_ptr<Matrix> q_a, q_b;  // Low-rank query projection through q_rank values.
  const float* q_a_norm = nullptr;
  std::unique_ptr<Matrix> kv_a;      // Projection to the latent vector.
  const float* kv_a_norm = nullptr;  // Shape [rank].
  std::unique_ptr<Matrix> k_b, v_b;  // One matrix per head; see BatchedMatmul::weight.
  std::unique_ptr<Matrix> output;
  NormWeights post_norm;
  // Weights of the layer's own sparse attention indexer: queries from q_rank values, one key, and a weight per query
  // head.
  std::unique_ptr<Matrix> index_q, index_k, index_weights;
  const float* index_norm = nullptr;
  const float* index_norm_bias = nullptr;
};

void list_weights(const LayerParams& layer, LatentAttentionWeights& weights, WeightList& list);

}  // namespace monolith
