// The part of a layer that attends: x += scale * post_norm(W_o attention(rope(qk_norm(W_qkv pre_norm(x))))).
#pragma once

#include "model/layers/layer_part.h"
#include "model/weights.h"

namespace monolith {

class Attention final : public LayerPart {
 public:
  // `layer`, number `index`: what it does otherwise than its neighbours. `table`: the pages of its keys and values.
  Attention(const HyperParams& params, const LayerParams& layer, const AttentionWeights& weights,
            Operations& operations, const Activations& activations, int index, int table, KvCache& cache)
      : params_(params), layer_(layer), weights_(weights), operations_(operations), buffers_(activations),
        residual_(params, operations, activations), index_(index), table_(table), cache_(cache) {}

  void run(StepRows& rows, bool last) const override;

 private:
  void project(const StepRows& rows) const;
  void store(const StepRows& rows) const;
  const float* leave_logit_rows(StepRows& rows) const;

  const HyperParams& params_;
  const LayerParams& layer_;
  const AttentionWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const int index_, table_;
  KvCache& cache_;
};

}  // namespace monolith
