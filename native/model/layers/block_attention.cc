#include "model/layers/block_attention.h"

#include <array>

namespace monolith {

BlockAttention::BlockAttention(const LayerContext& context)
    : params_(context.params),
      layer_(context.layer),
      weights_(context.weights.block_attention),
      operations_(context.operations),
      buffers_(context.activations),
      residual_(context),
      kv_layer_(context.kv_layer),
      table_(context.table),
      cache_(context.cache) {
  blocks_ = {layer_.pool(layer_.key_dim), context.slots, weights_.pool.norm, block_layer(params_, context.index)};
  blocks_.pool.bias = weights_.pool.bias;
  index_ = {layer_.pool(params_.latents.index.key_dim), context.slots.from(blocks_.pool.state_floats()),
            weights_.index_pool.norm, index_layer(params_, context.index)};
  index_.pool.bias = weights_.index_pool.bias;
}

void BlockAttention::run(StepRows& rows, bool last) const {
  project(rows);
  store(rows);
  if (layer_.chooses) choose(rows);
  const int most = layer_.chooses ? params_.latents.index.most : 0;
  const float* chosen = buffers_.chosen;
  if (last && rows.logit_rows.size() != static_cast<size_t>(rows.count.value()) && most > 0 &&
      !rows.logit_rows.empty()) {
    operations_.gather_rows(chosen, rows.logit_rows, most, buffers_.last_chosen);
    chosen = buffers_.last_chosen;
  }
  const float* const q =
      last ? leave_logit_rows(rows, params_, operations_, buffers_, buffers_.q, q_dim(layer_)) : buffers_.q;
  if (rows.count.value() == 0) return;
  AttentionParams attention{.scale = layer_.attention_scale, .window = layer_.window, .sinks = weights_.sinks};
  if (layer_.block > 0) {
    attention.chosen = chosen;
    attention.most_chosen = most;
    attention.block = layer_.block;
    attention.block_layer = blocks_.layer;
  }
  const int64_t dim = attended_dim(layer_), groups = params_.blocks.n_groups, rank = params_.blocks.output_rank;
  operations_.attention({.segments = segments(rows),
                         .q = q,
                         .q_stride = q_dim(layer_),
                         .n_heads = layer_.n_heads,
                         .layer = kv_layer_,
                         .cache = cache_,
                         .params = attention,
                         .out = buffers_.attended,
                         .out_stride = dim});
  rotate(segments(rows), true, buffers_.attended, layer_.n_heads, layer_.value_dim);
  operations_.batched_matmul({.weight = weights_.output_a.get(),
                              .n_heads = static_cast<int>(groups),
                              .rows = rank,
                              .x = buffers_.attended,
                              .x_stride = dim,
                              .x_head_stride = dim / groups,
                              .out = buffers_.head_values,
                              .out_stride = groups * rank,
                              .out_head_stride = rank},
                             rows.count);
  const MatmulTarget target{weights_.output_b.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, buffers_.head_values, rows.count, InputUse::kLast);
  residual_.add({}, rows);
}

void BlockAttention::project(StepRows& rows) const {
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows, weights_.norm);
  const IndexParams& index = params_.latents.index;
  const int64_t q_rank = params_.latents.q_rank, width = blocks_.pool.width(), index_width = index_.pool.width();
  std::array<MatmulTarget, 7> targets;
  size_t n = 0;
  targets[n++] = {weights_.q_a.get(), to.low_q, q_rank};
  targets[n++] = {weights_.kv.get(), to.k, layer_.key_dim};
  if (layer_.block > 0) {
    targets[n++] = {weights_.pool.values.get(), to.block_values, width};
    targets[n++] = {weights_.pool.scores.get(), to.block_scores, width};
  }
  if (layer_.chooses) {
    targets[n++] = {weights_.index_pool.values.get(), to.index_values, index_width};
    targets[n++] = {weights_.index_pool.scores.get(), to.index_scores, index_width};
    targets[n++] = {weights_.index_weights.get(), to.index_weights, index.n_heads};
  }
  operations_.matmul({targets.data(), n}, x, rows.count, residual_.last_use());
  operations_.rms_norm(to.low_q, weights_.q_a_norm, params_.norm_eps, rows.count, q_rank, to.low_q);
  const MatmulTarget from_low[] = {{weights_.q_b.get(), to.q, q_dim(layer_)},
                                   {weights_.index_q.get(), to.index_q, int64_t{index.n_heads} * index.key_dim}};
  operations_.matmul(std::span(from_low).first(layer_.chooses ? 2 : 1), to.low_q, rows.count, InputUse::kLast);
  operations_.rms_norm_heads(to.q, q_dim(layer_), nullptr, params_.norm_eps, rows.count, layer_.n_heads,
                             layer_.key_dim);
  operations_.rms_norm(to.k, weights_.kv_norm, params_.norm_eps, rows.count, layer_.key_dim, to.k);
}

RopeParams BlockAttention::angles(bool back) const {
  const RopeSet& angles = params_.ropes[static_cast<size_t>(layer_.rope + (back ? 1 : 0))];
  return {params_.rope_style, angles.n_dims, angles.inverse_frequency.data(), angles.magnitude};
}

void BlockAttention::rotate(std::span<const Segment> segments, bool back, float* x, int n_heads, int head_dim) const {
  operations_.rotate(angles(back), segments, x + head_dim - params_.blocks.n_rotated, int64_t{n_heads} * head_dim,
                     n_heads, head_dim);
}

// Stores the vectors of all tokens, and the vectors of the blocks that end at one of these tokens.
void BlockAttention::store(const StepRows& rows) const {
  const std::span<const Segment> own = segments(rows);
  rotate(own, false, buffers_.q, layer_.n_heads, layer_.key_dim);
  rotate(own, false, buffers_.k, 1, layer_.key_dim);
  operations_.rope_and_store_latents({.rope = {},
                                      .segments = own,
                                      .queries = {},
                                      .rows = buffers_.k,
                                      .row_stride = layer_.key_dim,
                                      .layer = kv_layer_,
                                      .cache = cache_});
  if (layer_.block > 0) store_blocks(rows, blocks_, buffers_.block_values, buffers_.block_scores);
}

void BlockAttention::store_blocks(const StepRows& rows, const Blocks& blocks, const float* values,
                                  const float* scores) const {
  operations_.pool_blocks(blocks.pool, segments(rows), blocks.state, values, scores, buffers_.block_rows);
  operations_.store_blocks({.rope = angles(false),
                            .block = layer_.block,
                            .norm = blocks.norm,
                            .eps = params_.norm_eps,
                            .layer = blocks.layer},
                           segments(rows), buffers_.block_rows, cache_);
}

void BlockAttention::choose(const StepRows& rows) const {
  const IndexParams& index = params_.latents.index;
  store_blocks(rows, index_, buffers_.index_values, buffers_.index_scores);
  rotate(segments(rows), false, buffers_.index_q, index.n_heads, index.key_dim);
  operations_.select_positions({.q = buffers_.index_q,
                                .weights = buffers_.index_weights,
                                .n_heads = index.n_heads,
                                .layer = index_.layer,
                                .most = index.most,
                                .block = layer_.block},
                               segments(rows), cache_, buffers_.chosen);
}

}  // namespace monolith
