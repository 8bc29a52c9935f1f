// Weights of a block attention layer.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights that pool a block of positions into one vector (BlockPool, BlockRows).
struct BlockPoolWeights {
  std::unique_ptr<Matrix> values, scores;  // Shape [BlockPool::width(), n_embd].
  const float* bias = nullptr;             // Shape [block][width()].
  const float* norm = nullptr;             // Shape [dim].
};

// Weights that a layer does not have are null.
struct BlockAttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q_a, q_b;  // Low-rank query projection through q_rank values.
  const float* q_a_norm = nullptr;
  std::unique_ptr<Matrix> kv;  // Projection to a position's vector, which is key and value of all heads.
  const float* kv_norm = nullptr;
  const float* sinks = nullptr;  // Shape [n_heads].
  // Output projections: one per group of heads (BatchedMatmul::weight), and one over their results.
  std::unique_ptr<Matrix> output_a, output_b;
  BlockPoolWeights pool;
  // Weights of the layer's own block indexer.
  std::unique_ptr<Matrix> index_q, index_weights;
  BlockPoolWeights index_pool;
};

void list_weights(const LayerParams& layer, BlockAttentionWeights& weights, WeightList& list);

}  // namespace monolith
