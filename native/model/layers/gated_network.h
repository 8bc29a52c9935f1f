// The feed-forward network that all rows pass: x += scale * post_norm(W_down (activation(W_gate h) * W_up h)), h = pre_norm(x).
#pragma once

#include "model/layers/layer_part.h"
#include "model/weights.h"

namespace monolith {

// out = W_down (activation(W_gate x) * W_up x), or added to it. `use`: of x.
void run_gated_network(const HyperParams& params, const NetworkWeights& weights, int64_t n_ff,
                       Operations& operations, const Activations& activations, const float* x,
                       int n_rows, float* out, bool add, InputUse use);

class GatedNetwork final : public LayerPart {
 public:
  GatedNetwork(const HyperParams& params, const LayerWeights& weights, Operations& operations,
               const Activations& activations)
      : params_(params), weights_(weights), operations_(operations), buffers_(activations),
        residual_(params, operations, activations) {}

  void run(StepRows& rows, bool last) const override;

 private:
  const HyperParams& params_;
  const LayerWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
};

}  // namespace monolith
