#include "model/layers/mamba2.h"

namespace monolith {

Mamba2::Mamba2(const LayerContext& context)
    : params_(context.params),
      shape_(context.params.state_space),
      weights_(context.weights.mamba2),
      operations_(context.operations),
      buffers_(context.activations),
      residual_(context),
      use_(context.layer.mixer == MixerKind::kAttentionAndMamba2 ? InputUse::kAgain : residual_.last_use()),
      space_(shape_.space()),
      convolution_{.n_channels = static_cast<int>(shape_.channels()),
                   .conv_kernel_size = shape_.conv_kernel_size,
                   .weight = weights_.convolution,
                   .bias = weights_.convolution_bias,
                   .silu = true},
      state_(context.slots),
      inputs_(context.slots.from(space_.state_floats())) {
  space_.rate = weights_.rate;
  space_.step_bias = weights_.step_bias;
  space_.skip = weights_.skip;
}

void Mamba2::run(StepRows& rows, bool last) const {
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows, weights_.norm);
  const int64_t channels = shape_.channels(), width = shape_.width();
  const MatmulTarget targets[] = {{weights_.gate.get(), to.mixer_gate, width},
                                  {weights_.mixed.get(), to.q, channels},
                                  {weights_.step.get(), to.beta, shape_.n_heads}};
  operations_.matmul(targets, x, rows.count, use_);
  const std::span<const Segment> segments = rows.tables.front();  // The slots are the same in all page tables.
  operations_.convolve(convolution_, segments, inputs_, to.q, channels);
  operations_.state_space(space_, segments, state_,
                          {.x = to.q,
                           .b = to.q + width,
                           .c = to.q + width + space_.group_width(),
                           .stride = channels,
                           .group_stride = channels,
                           .step = to.beta},
                          to.attended);
  float* gated = to.mixer_gate;
  operations_.gated(Activation::kSilu, gated, to.attended, rows.count, width, gated);
  if (weights_.out_norm != nullptr)
    operations_.rms_norm_groups(gated, weights_.out_norm, params_.norm_eps, rows.count, shape_.n_groups,
                                width / shape_.n_groups);
  const float* const out = last ? leave_logit_rows(rows, params_, operations_, to, gated, width) : gated;
  if (rows.count.value() == 0) return;
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, out, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

}  // namespace monolith
