// DeepSeek V4's block attention. A token attends to the vectors in a sliding window and to vectors that represent
// compressed blocks of earlier positions. Each vector serves as both key and value for all heads. The token attends
// either to all blocks or to the blocks that the sparse-attention indexer selects.
//
//   q = rope(norm of each head(W_qb norm(W_qa h))),  row = rope(norm(W_kv h))
//   x += W_ob (for each group of heads: W_oa rope^-1(attention(q, rows, blocks)))
//
// RoPE has rotated the stored vectors, which also serve as values, by their position. The attention output is therefore
// rotated back by the query's position.
#pragma once

#include "model/kv_layout.h"
#include "model/layers/layer_block.h"

namespace monolith {

class BlockAttention final : public LayerBlock {
 public:
  explicit BlockAttention(const LayerContext& context);

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  // Describes how compressed blocks are pooled into the vectors that one layer of the KV cache stores.
  struct Blocks {
    BlockPool pool;
    LayerSlots state;
    const float* norm;
    int layer;
  };

  void project(StepRows& rows) const;
  void store(const StepRows& rows) const;
  void store_blocks(const StepRows& rows, const Blocks& blocks, const float* values, const float* scores) const;
  void choose(const StepRows& rows) const;
  // Applies RoPE to the trailing dimensions of each head of x, or the inverse rotation if `back` is set.
  void rotate(std::span<const Segment> segments, bool back, float* x, int n_heads, int head_dim) const;
  RopeParams angles(bool back) const;
  std::span<const Segment> segments(const StepRows& rows) const {
    return (rows.all ? rows.tables : rows.logit_tables)[static_cast<size_t>(table_)];
  }

  const HyperParams& params_;
  const LayerParams& layer_;
  const BlockAttentionWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const int kv_layer_, table_;
  KvCache& cache_;
  Blocks blocks_, index_;
};

}  // namespace monolith
