#include "model/layers/attention.h"

namespace monolith {

void Attention::run(StepRows& rows, bool last) const {
  project(rows);
  store(rows);
  const float* q = buffers_.q;
  if (last) q = leave_logit_rows(rows);
  if (rows.count == 0) return;
  const std::span<const Segment> segments =
      rows.all ? rows.tables[static_cast<size_t>(table_)] : rows.logit_segments;
  operations_.attention(segments, q, q_dim(params_, layer_), params_.n_heads, index_, cache_,
                        {.scale = params_.attention_scale,
                         .window = layer_.window,
                         .soft_cap = params_.attention_soft_cap,
                         .sinks = weights_.sinks},
                        buffers_.attended, attended_dim(params_, layer_));
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd,
                            weights_.output_bias, residual_.is_direct()};
  operations_.matmul({&target, 1}, buffers_.attended, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

void Attention::project(const StepRows& rows) const {
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows.x, weights_.norm, rows.count);
  const MatmulTarget targets[] = {
      {weights_.q.get(), to.q, q_dim(params_, layer_), weights_.q_bias},
      {weights_.k.get(), to.k, k_dim(layer_), weights_.k_bias},
      {weights_.v.get(), to.v, v_dim(layer_), weights_.v_bias},
  };
  operations_.matmul(targets, x, rows.count, residual_.last_use());
  if (params_.qk_norm == QkNorm::kEachHead) {
    operations_.rms_norm_heads(to.q, q_dim(params_, layer_), weights_.q_norm, params_.rms_eps, rows.count,
                               params_.n_heads, layer_.key_dim);
    operations_.rms_norm_heads(to.k, k_dim(layer_), weights_.k_norm, params_.rms_eps, rows.count,
                               layer_.n_kv_heads, layer_.key_dim);
  } else if (params_.qk_norm == QkNorm::kWholeRow) {
    operations_.rms_norm(to.q, weights_.q_norm, params_.rms_eps, rows.count, q_dim(params_, layer_), to.q);
    operations_.rms_norm(to.k, weights_.k_norm, params_.rms_eps, rows.count, k_dim(layer_), to.k);
  }
}

// Rotates queries and keys, and stores keys and values.
void Attention::store(const StepRows& rows) const {
  RopeParams rope{params_.rope_style, 0, nullptr, 1.0f};
  if (layer_.rope >= 0) {
    const RopeSet& angles = params_.ropes[static_cast<size_t>(layer_.rope)];
    rope = {params_.rope_style, params_.rope_dims, angles.inverse_frequency.data(),
            angles.magnitude};
  }
  operations_.rope_and_store(rope, rows.tables[static_cast<size_t>(table_)], buffers_.q,
                             q_dim(params_, layer_), params_.n_heads, buffers_.k, k_dim(layer_),
                             buffers_.v, v_dim(layer_), index_, cache_);
}

// Returns their queries. When every row has logits nothing is copied.
const float* Attention::leave_logit_rows(StepRows& rows) const {
  const int n = static_cast<int>(rows.logit_rows.size());
  if (n == rows.count) return buffers_.q;
  if (n > 0) {
    operations_.gather_rows(buffers_.q, rows.logit_rows.data(), n, q_dim(params_, layer_), buffers_.last_q);
    operations_.gather_rows(rows.x, rows.logit_rows.data(), n, params_.n_embd, buffers_.last_x);
  }
  rows.x = buffers_.last_x;
  rows.count = n;
  rows.all = false;
  return buffers_.last_q;
}

}  // namespace monolith
