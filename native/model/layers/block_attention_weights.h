// What block attention needs of a file.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// How a block of positions becomes a row (BlockPool, BlockRows).
struct BlockPoolWeights {
  std::unique_ptr<Matrix> values, scores;  // [BlockPool::width(), n_embd]
  const float* bias = nullptr;             // [block][width()]
  const float* norm = nullptr;             // [dim]
};

// Null where a layer has none.
struct BlockAttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q_a, q_b;  // of queries, by way of q_rank numbers
  const float* q_a_norm = nullptr;
  std::unique_ptr<Matrix> kv;  // a position's row: key and value of all heads
  const float* kv_norm = nullptr;
  const float* sinks = nullptr;                // [n_heads]
  std::unique_ptr<Matrix> output_a, output_b;  // of each group of heads, HeadProducts::weight; and of what that makes
  BlockPoolWeights pool;
  // Of the layer's own index of blocks.
  std::unique_ptr<Matrix> index_q, index_weights;
  BlockPoolWeights index_pool;
};

void list_weights(const LayerParams& layer, BlockAttentionWeights& weights, WeightList& list);

}  // namespace monolith
