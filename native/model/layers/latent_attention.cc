#include "model/layers/latent_attention.h"

namespace monolith {

void LatentAttention::run(StepRows& rows, bool last) const {
  project(rows);
  store(rows);
  if (layer_.chooses) choose(rows);
  const float* q = buffers_.q;
  if (last) q = leave_logit_rows(rows);
  if (rows.count.value() == 0) return;
  const LatentParams& latents = params_.latents;
  const std::span<const Segment> segments = (rows.all ? rows.tables : rows.logit_tables)[static_cast<size_t>(table_)];
  operations_.attention({.segments = segments,
                         .q = q,
                         .q_stride = q_dim(layer_),
                         .n_heads = layer_.n_heads,
                         .layer = kv_layer_,
                         .cache = cache_,
                         .params = {.scale = layer_.attention_scale,
                                    .window = layer_.window,
                                    .temperature_scale = layer_.temperature_scale,
                                    .temperature_length = layer_.temperature_length,
                                    .temperature_offset = layer_.temperature_offset,
                                    .chosen = rows.all ? buffers_.chosen : buffers_.last_chosen,
                                    .most_chosen = latents.index.most},
                         .out = buffers_.attended,
                         .out_stride = attended_dim(layer_)});
  const int64_t values_dim = int64_t{layer_.n_heads} * latents.value_dim;
  operations_.batched_matmul({.weight = weights_.v_b.get(),
                              .n_heads = layer_.n_heads,
                              .rows = latents.value_dim,
                              .x = buffers_.attended,
                              .x_stride = attended_dim(layer_),
                              .x_head_stride = latents.rank,
                              .out = buffers_.head_values,
                              .out_stride = values_dim,
                              .out_head_stride = latents.value_dim},
                             rows.count);
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, buffers_.head_values, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

// Computes the normalized latent vectors and, for each head, the query mapped to the latent space.
void LatentAttention::project(StepRows& rows) const {
  const LatentParams& latents = params_.latents;
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows, weights_.norm);
  const int64_t head_q_dim = int64_t{layer_.n_heads} * latents.key_dim;
  const bool low = latents.q_rank > 0;
  const IndexParams& index = latents.index;
  const MatmulTarget targets[] = {
      {weights_.kv_a.get(), to.k, k_dim(layer_)},
      low ? MatmulTarget{weights_.q_a.get(), to.low_q, latents.q_rank}
          : MatmulTarget{weights_.q.get(), to.head_q, head_q_dim},
      {weights_.index_k.get(), to.index_k, index.key_dim},
      {weights_.index_weights.get(), to.index_weights, index.n_heads},
  };
  operations_.matmul(std::span(targets).first(layer_.chooses ? 4 : 2), x, rows.count, residual_.last_use());
  if (low) {
    operations_.rms_norm(to.low_q, weights_.q_a_norm, params_.norm_eps, rows.count, latents.q_rank, to.low_q);
    const MatmulTarget from_low[] = {{weights_.q_b.get(), to.head_q, head_q_dim},
                                     {weights_.index_q.get(), to.index_q, int64_t{index.n_heads} * index.key_dim}};
    operations_.matmul(std::span(from_low).first(layer_.chooses ? 2 : 1), to.low_q, rows.count, InputUse::kLast);
  }
  operations_.rms_norm_heads(to.k, k_dim(layer_), weights_.kv_a_norm, params_.norm_eps, rows.count, 1, latents.rank);
  operations_.batched_matmul({.weight = weights_.k_b.get(),
                              .n_heads = layer_.n_heads,
                              .rows = latents.rank,
                              .x = to.head_q,
                              .x_stride = head_q_dim,
                              .x_head_stride = latents.key_dim,
                              .out = to.q,
                              .out_stride = q_dim(layer_),
                              .out_head_stride = layer_.key_dim},
                             rows.count);
}

RopeParams LatentAttention::angles() const {
  if (layer_.rope < 0) return {params_.rope_style, 0, nullptr, 1.0f};
  const RopeSet& angles = params_.ropes[static_cast<size_t>(layer_.rope)];
  return {params_.rope_style, angles.n_dims, angles.inverse_frequency.data(), angles.magnitude};
}

// Stores the indexer keys and selects the positions that each token will attend to.
void LatentAttention::choose(const StepRows& rows) const {
  const IndexParams& index = params_.latents.index;
  const Activations& to = buffers_;
  const std::span<const Segment> segments = rows.tables[static_cast<size_t>(table_)];
  operations_.layer_norm(to.index_k, weights_.index_norm, weights_.index_norm_bias, index.norm_eps, rows.count,
                         index.key_dim, to.index_k);
  RopeParams rope = angles();
  rope.style = index.rope_style;
  const int64_t q_dim = int64_t{index.n_heads} * index.key_dim;
  operations_.rotate(rope, segments, to.index_q, q_dim, index.n_heads, index.key_dim);
  operations_.rotate(rope, segments, to.index_k, index.key_dim, 1, index.key_dim);
  operations_.rope_and_store_latents({.rope = {},
                                      .segments = segments,
                                      .queries = {},
                                      .rows = to.index_k,
                                      .row_stride = index.key_dim,
                                      .layer = index_layer_,
                                      .cache = cache_});
  operations_.select_positions({.q = to.index_q,
                                .weights = to.index_weights,
                                .n_heads = index.n_heads,
                                .layer = index_layer_,
                                .most = index.most},
                               segments, cache_, to.chosen);
}

// Applies RoPE and stores the latent vectors in the cache.
void LatentAttention::store(const StepRows& rows) const {
  const RopeParams rope = angles();
  const LatentQueries queries{.from = buffers_.head_q,
                              .from_stride = int64_t{layer_.n_heads} * params_.latents.key_dim,
                              .from_dim = params_.latents.key_dim,
                              .to = buffers_.q,
                              .to_stride = q_dim(layer_),
                              .n_heads = layer_.n_heads};
  operations_.rope_and_store_latents({.rope = rope,
                                      .segments = rows.tables[static_cast<size_t>(table_)],
                                      .queries = queries,
                                      .rows = buffers_.k,
                                      .row_stride = k_dim(layer_),
                                      .layer = kv_layer_,
                                      .cache = cache_});
}

// Reduces the step to the tokens with logits and returns the queries of these tokens. Copies nothing if all tokens have
// logits.
const float* LatentAttention::leave_logit_rows(StepRows& rows) const {
  const int n = static_cast<int>(rows.logit_rows.size());
  if (n == rows.count.value()) return buffers_.q;
  if (n > 0) {
    operations_.gather_rows(buffers_.q, rows.logit_rows, q_dim(layer_), buffers_.last_q);
    operations_.gather_rows(rows.x, rows.logit_rows, params_.n_embd, buffers_.last_x);
    if (params_.latents.index.most > 0)
      operations_.gather_rows(buffers_.chosen, rows.logit_rows, params_.latents.index.most, buffers_.last_chosen);
    if (params_.parallel_residual)
      operations_.gather_rows(rows.normed, rows.logit_rows, params_.n_embd, buffers_.last_normed);
  }
  rows.normed = buffers_.last_normed;
  rows.x = buffers_.last_x;
  rows.count = RowCount::fixed(n);
  rows.all = false;
  return buffers_.last_q;
}

}  // namespace monolith
