// The part of a layer that attends: x += scale * post_norm(W_o attention(rope(qk_norm(W_qkv pre_norm(x))))).
#pragma once

#include "model/layers/layer_part.h"
#include "model/weights.h"

namespace monolith {

class Attention final : public LayerPart {
 public:
  // `layer`: what it does otherwise than its neighbours. `place`: where its keys and values are in `cache`.
  Attention(const HyperParams& params, const LayerParams& layer, const AttentionWeights& weights,
            Operations& operations, const Activations& activations, KvPlace place, KvCache& cache)
      : params_(params), layer_(layer), weights_(weights), operations_(operations), buffers_(activations),
        residual_(params, operations, activations), place_(place), cache_(cache) {}

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
  const KvPlace place_;
  KvCache& cache_;
};

}  // namespace monolith
