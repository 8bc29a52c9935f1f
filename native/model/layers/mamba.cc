#include "model/layers/mamba.h"

namespace monolith {

Mamba::Mamba(const LayerContext& context)
    : params_(context.params),
      shape_(context.params.state_space),
      weights_(context.weights.mamba),
      operations_(context.operations),
      buffers_(context.activations),
      residual_(context),
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

void Mamba::run(StepRows& rows, bool last) const {
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows, weights_.norm);
  const int64_t width = shape_.width(), groups = space_.group_width();
  const MatmulTarget targets[] = {{weights_.x.get(), to.q, width}, {weights_.gate.get(), to.mixer_gate, width}};
  operations_.matmul(targets, x, rows.count, residual_.last_use());
  const std::span<const Segment> segments = rows.tables.front();  // The slots are the same in all page tables.
  operations_.convolve(convolution_, segments, inputs_, to.q, width);
  project(rows.count);
  operations_.state_space(space_, segments, state_,
                          {.x = to.q,
                           .b = to.space_groups,
                           .c = to.space_groups + groups,
                           .stride = width,
                           .group_stride = 2 * groups,
                           .step = to.beta},
                          to.attended);
  float* gated = to.mixer_gate;
  operations_.gated(Activation::kSilu, gated, to.attended, rows.count, width, gated);
  const float* const out = last ? leave_logit_rows(rows, params_, operations_, to, gated, width) : gated;
  if (rows.count.value() == 0) return;
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, out, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

// Computes the steps, B and C.
void Mamba::project(RowCount rows) const {
  const int64_t rank = shape_.step_rank, groups = space_.group_width();
  float* const low = buffers_.low_decay;
  float* const b = buffers_.space_groups;
  const MatmulTarget targets[] = {{weights_.low_step.get(), low, rank}, {weights_.groups.get(), b, 2 * groups}};
  operations_.matmul(targets, buffers_.q, rows, InputUse::kAgain);
  if (shape_.projection_norm != ProjectionNorm::kNone) {
    const auto norm = [&](float* x, int64_t stride, const float* weight, int64_t dim) {
      operations_.rms_norm_heads(x, stride, weight, params_.norm_eps, rows, 1, static_cast<int>(dim));
    };
    norm(low, rank, weights_.step_norm, rank);
    norm(b, 2 * groups, weights_.b_norm, groups);
    norm(b + groups, 2 * groups, weights_.c_norm, groups);
  }
  const MatmulTarget step{weights_.step.get(), buffers_.beta, space_.steps()};
  operations_.matmul({&step, 1}, low, rows, InputUse::kLast);
}

}  // namespace monolith
