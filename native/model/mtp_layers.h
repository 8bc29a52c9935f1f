// The drafter that uses a model's own multi-token prediction (MTP) layers (Gloeckle et al. 2024, arXiv:2404.19737; as
// in DeepSeek V3, arXiv:2412.19437). There is one layer per level (mtp_layer.h). Tokens beyond the last level are
// drafted by running the last layer again on its own outputs.
//
//   x[j] = W [norm(embedding of token j), norm(hidden state of position j - 1)]
//   y[j] = layer(x)[j]
//
// The model's hidden state is its output before the head.
#pragma once

#include "model/mtp_layer.h"

namespace monolith {

class MtpLayers final : public MtpLayer {
 public:
  MtpLayers(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
            const Activations& activations, std::vector<Parts> levels);

  void note(int layer, const float* x, RowCount rows) override;
  int last_noted() const override { return params_.n_layers; }
  const Matrix* head(int level) const override { return weights_of(level).head.get(); }

 protected:
  StepRows project(int level, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                   std::span<const std::span<const Segment>> tables) override;
  const float* finish(int level, const float* x, RowCount rows) override;

 private:
  const DraftWeights& weights_of(int level) const {
    return weights_.draft[static_cast<size_t>(std::min(level, last_level()))];
  }

  const HyperParams& params_;
  const Weights& weights_;
  std::vector<int32_t> pairs_;
};

}  // namespace monolith
