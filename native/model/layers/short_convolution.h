// A short convolution between two gates (LFM2): x += W_out (c * convolve(b * v)), where b, c and v are projections of
// pre_norm(x).
#pragma once

#include "model/layers/layer_block.h"

namespace monolith {

class ShortConvolution final : public LayerBlock {
 public:
  explicit ShortConvolution(const LayerContext& context)
      : params_(context.params),
        weights_(context.weights.short_convolution),
        operations_(context.operations),
        buffers_(context.activations),
        residual_(context),
        convolution_{
            .n_channels = params_.n_embd, .conv_kernel_size = params_.convolution_taps, .weight = weights_.convolution},
        inputs_(context.slots) {}

  void run(StepRows& rows, bool last) const override;
  bool mixes() const override { return true; }

 private:
  const HyperParams& params_;
  const ShortConvolutionWeights& weights_;
  Operations& operations_;
  const Activations& buffers_;
  const Residual residual_;
  const Convolution convolution_;
  const LayerSlots inputs_;
};

}  // namespace monolith
