#include "model/layers/attention.h"

#include <array>

namespace monolith {

void Attention::run(StepRows& rows, bool last) const {
  project(rows);
  store(rows);
  const float* q = buffers_.q;
  if (last) q = leave_logit_rows(rows);
  if (rows.count.value() == 0) return;
  operations_.attention({.segments = segments(rows),
                         .q = q,
                         .q_stride = q_dim(layer_),
                         .n_heads = layer_.n_heads,
                         .layer = kv_layer_,
                         .cache = cache_,
                         .params = {.scale = layer_.attention_scale,
                                    .window = layer_.window,
                                    .chunked = layer_.chunked,
                                    .soft_cap = params_.attention_soft_cap,
                                    .sinks = weights_.sinks,
                                    .temperature_scale = layer_.temperature_scale,
                                    .temperature_length = layer_.temperature_length,
                                    .temperature_offset = layer_.temperature_offset,
                                    .max_alibi_bias = params_.max_alibi_bias},
                         .out = buffers_.attended,
                         .out_stride = attended_dim(layer_)});
  if (params_.head_gates)
    operations_.gate_heads(params_.head_gate, buffers_.attended,
                           rows.all ? buffers_.head_gates : buffers_.last_head_gates, rows.count, layer_.n_heads,
                           layer_.value_dim);
  if (params_.value_scale != 1.0f)
    operations_.scale(buffers_.attended, rows.count, attended_dim(layer_), params_.value_scale);
  const float* attended = buffers_.attended;
  if (layer_.output_gate) {
    float* const gate = rows.all ? buffers_.mixer_gate : buffers_.last_gate;
    operations_.gated(Activation::kSigmoid, gate, attended, rows.count, attended_dim(layer_), gate);
    attended = gate;
  }
  if (params_.sub_norms)
    operations_.rms_norm(attended, weights_.sub_norm, params_.norm_eps, rows.count, attended_dim(layer_),
                         buffers_.attended);
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, weights_.output_bias,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, attended, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

void Attention::project(StepRows& rows) const {
  const Activations& to = buffers_;
  const float* const x = rows.mixer_input != nullptr ? rows.mixer_input : residual_.read(rows, weights_.norm);
  if (params_.parallel_norm) {
    apply_norm(params_, ffn_norm_, operations_, rows.x, rows.count, params_.n_embd, buffers_.parallel_input);
    rows.normed = buffers_.parallel_input;
  }
  if (early_input(params_, layer_)) {
    float* const early = buffers_.parallel_input;
    if (layer_.mixture())
      operations_.copy_rows(rows.x, params_.n_embd, rows.count, params_.n_embd, early);
    else
      apply_norm(params_, experts_norm_, operations_, rows.x, rows.count, params_.n_embd, early);
    rows.early = early;
  }
  std::array<MatmulTarget, 5> targets;
  size_t n = 0;
  targets[n++] = {weights_.q.get(), to.q, q_dim(layer_), weights_.q_bias};
  if (layer_.kv_of < 0) {
    targets[n++] = {weights_.k.get(), to.k, k_dim(layer_), weights_.k_bias};
    if (!layer_.value_is_key) targets[n++] = {weights_.v.get(), to.v, v_dim(layer_), weights_.v_bias};
  }
  if (params_.head_gates) targets[n++] = {weights_.head_gates.get(), to.head_gates, layer_.n_heads};
  if (layer_.output_gate) targets[n++] = {weights_.gate.get(), to.mixer_gate, attended_dim(layer_)};
  operations_.matmul({targets.data(), n}, x, rows.count, residual_.last_use());
  if (layer_.kv_of < 0) {
    if (layer_.value_is_key) operations_.copy_rows(to.k, k_dim(layer_), rows.count, k_dim(layer_), to.v);
    if (params_.value_norm)
      operations_.rms_norm_heads(to.v, v_dim(layer_), nullptr, params_.norm_eps, rows.count, layer_.n_kv_heads,
                                 layer_.value_dim);
  }
  if (params_.clamp_qkv > 0) {
    operations_.clamp(to.q, rows.count, q_dim(layer_), params_.clamp_qkv);
    operations_.clamp(to.k, rows.count, k_dim(layer_), params_.clamp_qkv);
    operations_.clamp(to.v, rows.count, v_dim(layer_), params_.clamp_qkv);
  }
  if (params_.qk_norm == QkNorm::kEachHead) {
    operations_.rms_norm_heads(to.q, q_dim(layer_), weights_.q_norm, params_.norm_eps, rows.count, layer_.n_heads,
                               layer_.key_dim);
    if (layer_.kv_of < 0)
      operations_.rms_norm_heads(to.k, k_dim(layer_), weights_.k_norm, params_.norm_eps, rows.count, layer_.n_kv_heads,
                                 layer_.key_dim);
  } else if (params_.qk_norm == QkNorm::kEachHeadApart) {
    const auto norm_heads = [&](float* x, const float* weight, int n_heads) {
      if (params_.norm == NormKind::kRms)
        operations_.rms_norm_groups(x, weight, params_.norm_eps, rows.count, n_heads, layer_.key_dim);
      else
        operations_.layer_norm_groups(x, weight, params_.norm_eps, rows.count, n_heads, layer_.key_dim);
    };
    norm_heads(to.q, weights_.q_norm, layer_.n_heads);
    if (layer_.kv_of < 0) norm_heads(to.k, weights_.k_norm, layer_.n_kv_heads);
  } else if (params_.qk_norm == QkNorm::kWholeRow) {
    operations_.rms_norm(to.q, weights_.q_norm, params_.norm_eps, rows.count, q_dim(layer_), to.q);
    if (layer_.kv_of < 0)
      operations_.rms_norm(to.k, weights_.k_norm, params_.norm_eps, rows.count, k_dim(layer_), to.k);
  }
}

// Applies RoPE to queries and keys, and stores keys and values in the cache.
void Attention::store(const StepRows& rows) const {
  RopeParams rope{params_.rope_style, 0, nullptr, 1.0f};
  if (layer_.rope >= 0) {
    const RopeSet& angles = params_.ropes[static_cast<size_t>(layer_.rope)];
    rope = {params_.rope_style, angles.n_dims, angles.inverse_frequency.data(), angles.magnitude,
            angles.axes.empty() ? nullptr : angles.axes.data()};
  }
  const bool weighted = params_.qk_norm == QkNorm::kEachHeadRotated;
  if (weighted || (params_.qk_norm == QkNorm::kUnweightedRotated && layer_.rope >= 0)) {
    const auto rotate_and_norm = [&](float* x, int64_t stride, int n_heads, const float* norm) {
      operations_.rotate(rope, segments(rows), x, stride, n_heads, layer_.key_dim);
      operations_.rms_norm_heads(x, stride, norm, params_.norm_eps, rows.count, n_heads, layer_.key_dim);
    };
    rotate_and_norm(buffers_.q, q_dim(layer_), layer_.n_heads, weights_.q_norm);
    if (layer_.kv_of < 0) rotate_and_norm(buffers_.k, k_dim(layer_), layer_.n_kv_heads, weights_.k_norm);
    rope.n_dims = 0;
  }
  const bool own = layer_.kv_of < 0;
  operations_.rope_and_store({.rope = rope,
                              .segments = segments(rows),
                              .q = buffers_.q,
                              .q_stride = q_dim(layer_),
                              .n_heads = layer_.n_heads,
                              .k = own ? buffers_.k : nullptr,
                              .k_stride = k_dim(layer_),
                              .v = own ? buffers_.v : nullptr,
                              .v_stride = v_dim(layer_),
                              .layer = kv_layer_,
                              .cache = cache_});
}

// Reduces the step to the tokens with logits and returns the queries of these tokens. Copies nothing if all tokens have
// logits.
const float* Attention::leave_logit_rows(StepRows& rows) const {
  const int n = static_cast<int>(rows.logit_rows.size());
  if (n == rows.count.value()) return buffers_.q;
  if (n > 0) {
    operations_.gather_rows(buffers_.q, rows.logit_rows, q_dim(layer_), buffers_.last_q);
    if (layer_.output_gate)
      operations_.gather_rows(buffers_.mixer_gate, rows.logit_rows, attended_dim(layer_), buffers_.last_gate);
    operations_.gather_rows(rows.x, rows.logit_rows, params_.n_embd, buffers_.last_x);
    if (params_.head_gates)
      operations_.gather_rows(buffers_.head_gates, rows.logit_rows, layer_.n_heads, buffers_.last_head_gates);
    if (params_.per_layer.dim > 0)
      operations_.gather_rows(rows.per_layer, rows.logit_rows, per_layer_dim(params_), buffers_.last_per_layer);
    if (params_.parallel_residual)
      operations_.gather_rows(rows.normed, rows.logit_rows, params_.n_embd, buffers_.last_normed);
  }
  if (n > 0 && early_input(params_, layer_)) {
    operations_.gather_rows(rows.early, rows.logit_rows, params_.n_embd, buffers_.last_early);
    rows.early = buffers_.last_early;
  }
  rows.normed = buffers_.last_normed;
  rows.per_layer = buffers_.last_per_layer;
  rows.x = buffers_.last_x;
  rows.count = RowCount::fixed(n);
  rows.all = false;
  return buffers_.last_q;
}

void LinearMixer::run(StepRows& rows, bool) const {
  const float* const x = residual_.read(rows, weights_.norm);
  const MatmulTarget target{.weight = weights_.output.get(),
                            .out = residual_.target(rows),
                            .out_stride = weights_.output->rows,
                            .add_to_out = residual_.is_direct()};
  operations_.matmul({&target, 1}, x, rows.count, residual_.last_use());
  residual_.add(weights_.post_norm, rows);
}

}  // namespace monolith
