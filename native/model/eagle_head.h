// The head of EAGLE-3 (Li et al. 2025, arXiv:2503.01840): one layer from a file of its own that guesses tokens for a network
// from the residual stream before three of its layers. What it computes is llama.cpp's (src/models/eagle3.cpp); what reads
// and keeps rows is guess_layer.h's.
//
//   hidden row of position j = W_fc [x before layer a, x before layer b, x before layer c] of j
//   r[j] = hidden row of j - 1;  z[j] = r[j] + attention([norm(embedding of token j), norm(r[j])])
//   y[j] = z[j] + feed_forward(norm(z[j]));  logits of token j + 1 = head(norm(y[j]))
//
// The published code has row j at position j - 1, and none for the first token: this has one, of a hidden row of zeros.
// Rotations tell distances, so only that row can make a difference, and only to guesses.
#pragma once

#include "model/eagle_params.h"
#include "model/guess_layer.h"

namespace monolith {

class EagleHead final : public GuessLayer {
 public:
  // `parts`: of EagleParams::own's layer. `params`: of the network, which has the head.
  EagleHead(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
            const Activations& activations, Parts parts);

  void note(int layer, const float* x, int n_rows) override;
  int last_noted() const override;
  const Matrix* head(int) const override { return weights_.eagle.head.get(); }
  std::span<const int32_t> tokens() const override { return weights_.eagle.tokens; }

 protected:
  StepRows project(int level, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                   std::span<const std::span<const Segment>> tables) override;
  const float* finish(int level, const float* x, int n_rows) override;

 private:
  void fuse(int n_rows);

  const EagleParams& eagle_;
  const Weights& weights_;
  const int max_rows_;
  std::vector<int32_t> indices_;
};

}  // namespace monolith
