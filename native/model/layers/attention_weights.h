// Weights of the attention blocks. Members for weights that the model does not have are null. Vectors are in the
// backend's memory.
#pragma once

#include <memory>

#include "backend/matrix.h"
#include "model/layers/norm.h"

namespace monolith {

class WeightList;

// Weights of an attention block in which each head has its own keys and values.
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
  const float* sub_norm = nullptr;     // See HyperParams::sub_norms.
  const float* sinks = nullptr;        // Shape [n_heads].
  std::unique_ptr<Matrix> head_gates;  // Shape [n_heads, n_embd].
  NormWeights post_norm;
};

void list_weights(const LayerParams& layer, AttentionWeights& weights, WeightList& list);

// Weights of an MLA block.
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
  // Weights of the layer's own sparse-attention indexer: projections for the queries (from q_rank values), for one key,
  // and for a weight per query head.
  std::unique_ptr<Matrix> index_q, index_k, index_weights;
  const float* index_norm = nullptr;
  const float* index_norm_bias = nullptr;
};

void list_weights(const LayerParams& layer, LatentAttentionWeights& weights, WeightList& list);

// Weights that pool a block of positions into one vector (BlockPool, BlockRows).
struct BlockPoolWeights {
  std::unique_ptr<Matrix> values, scores;  // Shape [BlockPool::width(), n_embd].
  const float* bias = nullptr;             // Shape [block][width()].
  const float* norm = nullptr;             // Shape [dim].
};

// Weights of a block attention layer.
struct BlockAttentionWeights {
  NormWeights norm;
  std::unique_ptr<Matrix> q_a, q_b;  // Low-rank query projection through q_rank values.
  const float* q_a_norm = nullptr;
  std::unique_ptr<Matrix> kv;  // Projection to a position's vector, which is key and value of all heads.
  const float* kv_norm = nullptr;
  const float* sinks = nullptr;  // Shape [n_heads].
  // Output projections: one matrix per group of heads (BatchedMatmul::weight), and one that reads the results of all
  // groups.
  std::unique_ptr<Matrix> output_a, output_b;
  BlockPoolWeights pool;
  // Weights of the layer's own block indexer.
  std::unique_ptr<Matrix> index_q, index_weights;
  BlockPoolWeights index_pool;
};

void list_weights(const LayerParams& layer, BlockAttentionWeights& weights, WeightList& list);

}  // namespace monolith
