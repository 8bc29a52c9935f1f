#include "model/layers/rwkv.h"

#include <array>

namespace monolith {
namespace {

// Buffers in Activations::projected.
enum { kR, kK, kV, kDecay, kGate, kRate, kValueMix };
static_assert(kValueMix + 1 == kTimeMixInputs);

}  // namespace

TimeMixer::TimeMixer(const LayerContext& context)
    : params_(context.params),
      rwkv_(context.params.rwkv),
      weights_(context.weights.time_mix),
      operations_(context.operations),
      buffers_(context.activations),
      residual_(context),
      is_first_(context.index == 0),
      buffer_floats_(int64_t{context.max_rows} * context.params.n_embd),
      mix_(rwkv_.mix()),
      state_(context.slots),
      previous_(context.slots.from(mix_.state_floats())) {
  mix_.decay_bias = weights_.decay_bias;
  mix_.bonus = weights_.bonus;
  mix_.norm_weight = weights_.out_norm;
  mix_.norm_bias = weights_.out_norm_bias;
  mix_.rate_bias = weights_.rate_bias;
  mix_.value_bias = weights_.value_bias;
  mix_.key_scale = weights_.key_scale;
  mix_.key_rate = weights_.key_rate;
}

void TimeMixer::run(StepRows& rows, bool last) const {
  const float* const x = residual_.read(rows, weights_.norm);
  const std::span<const Segment> segments = rows.tables.front();  // The slots are the same in all page tables.
  operations_.difference_from_previous(segments, previous_, x, params_.n_embd, buffers_.difference);
  TimeMixInputs inputs = {
      .r = projected(kR), .k = projected(kK), .v = projected(kV), .decay = projected(kDecay), .gate = projected(kGate)};
  if (rwkv_.delta)
    project_delta(rows.count, x, inputs);
  else
    project(rows.count, x);
  float* const mixed = shifted(0);
  operations_.time_mix(mix_, segments, state_, inputs, mixed);
  const float* const out = last ? leave_logit_rows(rows, params_, operations_, buffers_, mixed, params_.n_embd) : mixed;
  if (rows.count.value() == 0) return;
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, out, rows.count, InputUse::kLast);
  residual_.add({}, rows);
}

void TimeMixer::project_low(const LowRankWeights& weights, Inner inner, const float* x, RowCount rows,
                            float* out) const {
  float* const low = buffers_.low_decay;
  const int64_t rank = weights.down->rows;
  const MatmulTarget down{weights.down.get(), low, rank};
  operations_.matmul({&down, 1}, x, rows, InputUse::kAgain);
  if (inner == Inner::kTanh) operations_.soft_cap(low, rows, rank, 1.0f);
  if (inner == Inner::kSigmoid) operations_.activate(Activation::kSigmoid, low, rows, rank);
  const MatmulTarget up{weights.up.get(), out, params_.n_embd};
  operations_.matmul({&up, 1}, low, rows, InputUse::kLast);
}

void TimeMixer::project_delta(RowCount rows, const float* x, TimeMixInputs& inputs) const {
  enum { kShiftedR, kShiftedDecay, kShiftedK, kShiftedV, kShiftedRate, kShiftedGate, kCount };
  std::array<ShiftedInput, kCount> all;
  for (int i = 0; i < kCount; ++i)
    all[static_cast<size_t>(i)] = {weights_.mu[static_cast<size_t>(i)], nullptr, shifted(i)};
  operations_.shifted_inputs(all, x, buffers_.difference, rows, params_.n_embd);
  const auto whole = [&](const Matrix& weight, int from, float* to) {
    const MatmulTarget target{&weight, to, params_.n_embd};
    operations_.matmul({&target, 1}, shifted(from), rows, InputUse::kAgain);
  };
  float* const v = is_first_ ? buffers_.first_v : projected(kV);
  whole(*weights_.r, kShiftedR, projected(kR));
  whole(*weights_.k, kShiftedK, projected(kK));
  whole(*weights_.v, kShiftedV, v);
  project_low(weights_.decay, Inner::kTanh, shifted(kShiftedDecay), rows, projected(kDecay));
  project_low(weights_.rate, Inner::kNone, shifted(kShiftedRate), rows, projected(kRate));
  project_low(weights_.low_gate, Inner::kSigmoid, shifted(kShiftedGate), rows, projected(kGate));
  inputs.v = v;
  inputs.rate = projected(kRate);
  if (is_first_) return;
  project_low(weights_.value, Inner::kNone, shifted(kShiftedV), rows, projected(kValueMix));
  inputs.first_v = buffers_.first_v;
  inputs.value_mix = projected(kValueMix);
}

void TimeMixer::project(RowCount rows, const float* x) const {
  enum { kShiftedDecay, kShiftedK, kShiftedV, kShiftedR, kShiftedGate, kCount };
  // Until the other projections are computed, their buffers hold the shifts of `mu`.
  float* const source = buffers_.attended;
  const ShiftedInput first{weights_.shift_mu, nullptr, source};
  operations_.shifted_inputs({&first, 1}, x, buffers_.difference, rows, params_.n_embd);
  std::array<ShiftedInput, kCount> all;
  for (int i = 0; i < kCount; ++i) {
    const auto at = static_cast<size_t>(i);
    project_low(weights_.shifts[at], Inner::kTanh, source, rows, projected(i));
    all[at] = {weights_.mu[at], projected(i), shifted(i)};
  }
  operations_.shifted_inputs(all, x, buffers_.difference, rows, params_.n_embd);
  const auto whole = [&](const Matrix& weight, int from, int to) {
    const MatmulTarget target{&weight, projected(to), params_.n_embd};
    operations_.matmul({&target, 1}, shifted(from), rows, InputUse::kLast);
  };
  whole(*weights_.r, kShiftedR, kR);
  whole(*weights_.k, kShiftedK, kK);
  whole(*weights_.v, kShiftedV, kV);
  whole(*weights_.gate, kShiftedGate, kGate);
  project_low(weights_.decay, Inner::kTanh, shifted(kShiftedDecay), rows, projected(kDecay));
}

ChannelMixer::ChannelMixer(const LayerContext& context)
    : params_(context.params),
      layer_(context.layer),
      norm_(context.weights.ffn_norm),
      weights_(context.weights.channel_mix),
      operations_(context.operations),
      buffers_(context.activations),
      residual_(context),
      buffer_floats_(int64_t{context.max_rows} * context.params.n_embd),
      previous_(context.slots.from(context.params.rwkv.mix().state_floats() + context.params.n_embd)) {}

void ChannelMixer::run(StepRows& rows, bool last) const {
  const int64_t n = params_.n_embd;
  const float* const x = residual_.read(rows, norm_);
  operations_.difference_from_previous(rows.tables.front(), previous_, x, n, buffers_.difference);
  float* const key = buffers_.shifted;
  float* const gate = key + buffer_floats_;
  const ShiftedInput inputs[] = {{weights_.key_mu, nullptr, key}, {weights_.gate_mu, nullptr, gate}};
  const bool gated = weights_.gate != nullptr;
  operations_.shifted_inputs({inputs, gated ? size_t{2} : size_t{1}}, x, buffers_.difference, rows.count, n);
  const float* gate_input = gate;
  if (last && gated && !rows.logit_rows.empty() && static_cast<int>(rows.logit_rows.size()) < rows.count.value()) {
    operations_.gather_rows(gate, rows.logit_rows, n, buffers_.last_shifted);
    gate_input = buffers_.last_shifted;
  }
  const float* const key_input = last ? leave_logit_rows(rows, params_, operations_, buffers_, key, n) : key;
  if (rows.count.value() == 0) return;
  float* const inner = buffers_.up;
  const MatmulTarget up{weights_.key.get(), inner, layer_.n_ff};
  operations_.matmul({&up, 1}, key_input, rows.count, InputUse::kLast);
  operations_.activate(Activation::kReluSquared, inner, rows.count, layer_.n_ff);
  if (!gated) {
    const MatmulTarget down{weights_.value.get(), residual_.target(rows), n, nullptr, residual_.is_direct()};
    operations_.matmul({&down, 1}, inner, rows.count, InputUse::kLast);
    return residual_.add({}, rows);
  }
  float* const opened = buffers_.projected;
  float* const result = opened + buffer_floats_;
  const MatmulTarget receptance{weights_.gate.get(), opened, n};
  operations_.matmul({&receptance, 1}, gate_input, rows.count, InputUse::kLast);
  const MatmulTarget down{weights_.value.get(), result, n};
  operations_.matmul({&down, 1}, inner, rows.count, InputUse::kLast);
  operations_.gated(Activation::kSigmoid, opened, result, rows.count, n, opened);
  operations_.add_rows(rows.x, opened, 1.0f, nullptr, rows.count, n);
}

}  // namespace monolith
