#include "model/layers/delta_net.h"

namespace monolith {

DeltaNet::DeltaNet(const LayerContext& context)
    : params_(context.params),
      delta_(context.params.delta_net),
      weights_(context.weights.delta_net),
      operations_(context.operations),
      buffers_(context.activations),
      residual_(context),
      rule_(delta_.rule(params_.norm_eps)),
      state_(context.slots) {
  rule_.rate = weights_.rate;
  rule_.decay_bias = weights_.decay_bias;
  int64_t state_at = rule_.state_floats(), first = 0;
  const auto convolve = [&](const float* weight, int64_t n_channels) {
    const Convolution convolution{.n_channels = static_cast<int>(n_channels),
                                  .conv_kernel_size = delta_.conv_kernel_size,
                                  .weight = weight,
                                  .silu = true};
    convolutions_[n_convolutions_++] = {convolution, context.slots.from(state_at), first};
    state_at += convolution.state_floats();
    first += n_channels;
  };
  if (!delta_.apart) {
    convolve(weights_.convolution, delta_.channels());
  } else {
    convolve(weights_.q_convolution, delta_.keys());
    convolve(weights_.k_convolution, delta_.keys());
    convolve(weights_.v_convolution, delta_.values());
  }
}

void DeltaNet::run(StepRows& rows, bool last) const {
  project(rows);
  const std::span<const Segment> segments = rows.tables.front();  // The slots are the same in all page tables.
  const int64_t channels = delta_.channels(), values = delta_.values();
  float* const mixed = buffers_.q;
  for (size_t i = 0; i < n_convolutions_; ++i) {
    const Convolved& part = convolutions_[i];
    operations_.convolve(part.convolution, segments, part.state, mixed + part.first, channels);
  }
  float* const out = buffers_.attended;
  operations_.delta_rule(rule_, segments, state_,
                         {.q = mixed,
                          .k = mixed + delta_.keys(),
                          .v = mixed + 2 * delta_.keys(),
                          .stride = channels,
                          .decay = buffers_.decay,
                          .beta = buffers_.beta},
                         out);
  operations_.rms_norm_heads(out, values, weights_.out_norm, params_.norm_eps, rows.count, delta_.n_value_heads,
                             delta_.value_dim);
  operations_.gated(delta_.gate, buffers_.mixer_gate, out, rows.count, values, buffers_.mixer_gate);
  const float* const gated =
      last ? leave_logit_rows(rows, params_, operations_, buffers_, buffers_.mixer_gate, values) : buffers_.mixer_gate;
  if (rows.count.value() == 0) return;
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, gated, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

void DeltaNet::project(StepRows& rows) const {
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows, weights_.norm);
  const int64_t channels = delta_.channels(), keys = delta_.keys();
  if (delta_.grouped_mixed) {
    const MatmulTarget targets[] = {{weights_.q.get(), to.q, channels},
                                    {weights_.k.get(), to.q + keys, channels},
                                    {weights_.v.get(), to.q + 2 * keys, channels},
                                    {weights_.gate.get(), to.mixer_gate, delta_.values()},
                                    {weights_.decay.get(), to.decay, delta_.decays()},
                                    {weights_.beta.get(), to.beta, delta_.n_value_heads}};
    return operations_.matmul(targets, x, rows.count, residual_.last_use());
  }
  if (!delta_.apart) {
    const MatmulTarget targets[] = {{weights_.mixed.get(), to.q, channels},
                                    {weights_.gate.get(), to.mixer_gate, delta_.values()},
                                    {weights_.decay.get(), to.decay, delta_.decays()},
                                    {weights_.beta.get(), to.beta, delta_.n_value_heads}};
    return operations_.matmul(targets, x, rows.count, residual_.last_use());
  }
  const int64_t rank = delta_.low_rank;
  const MatmulTarget targets[] = {{weights_.q.get(), to.q, channels},
                                  {weights_.k.get(), to.q + keys, channels},
                                  {weights_.v.get(), to.q + 2 * keys, channels},
                                  {weights_.beta.get(), to.beta, delta_.n_value_heads},
                                  {weights_.decay_low.get(), to.low_decay, rank},
                                  {weights_.gate_low.get(), to.low_gate, rank}};
  operations_.matmul(targets, x, rows.count, residual_.last_use());
  const MatmulTarget decay{weights_.decay.get(), to.decay, delta_.decays()};
  operations_.matmul({&decay, 1}, to.low_decay, rows.count, InputUse::kLast);
  const MatmulTarget gate{weights_.gate.get(), to.mixer_gate, delta_.values()};
  operations_.matmul({&gate, 1}, to.low_gate, rows.count, InputUse::kLast);
}

}  // namespace monolith
