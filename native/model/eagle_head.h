// An EAGLE-3 head (Li et al. 2025, arXiv:2503.01840): one layer, from a separate file, that drafts tokens from the
// residual stream at the inputs of three of the target model's layers. The computation matches llama.cpp
// (src/models/eagle3.cpp). The base class (mtp_layer.h) manages the hidden states.
//
//   hidden state of position j = W_fc [x before layer a, x before layer b, x before layer c] of j
//   r[j] = hidden state of j - 1;  z[j] = r[j] + attention([norm(embedding of token j), norm(r[j])])
//   y[j] = z[j] + feed_forward(norm(z[j]));  logits of token j + 1 = head(norm(y[j]))
//
// The published code stores row j at position j - 1 and has no row for the first token. Here, the first token has a row
// whose hidden state is all zeros. That extra row is the only difference, because RoPE depends only on distances. The
// row affects only draft tokens, not the output.
#pragma once

#include "model/eagle_params.h"
#include "model/mtp_layer.h"

namespace monolith {

class EagleHead final : public MtpLayer {
 public:
  // `parts` are the parts of the layer in EagleParams::own. `params` describes the target model, including the head.
  EagleHead(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
            const Activations& activations, Parts parts);

  void note(int layer, const float* x, RowCount rows) override;
  int last_noted() const override;
  const Matrix* head(int) const override { return weights_.eagle.head.get(); }
  std::span<const int32_t> tokens() const override { return weights_.eagle.tokens; }

 protected:
  StepRows project(int level, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                   std::span<const std::span<const Segment>> tables) override;
  const float* finish(int level, const float* x, RowCount rows) override;

 private:
  void fuse(int n_rows);

  const EagleParams& eagle_;
  const Weights& weights_;
  const int max_rows_;
  std::vector<int32_t> indices_;
};

}  // namespace monolith
