#include "model/layers/activations.h"

#include <algorithm>

#include "model/eagle_params.h"
#include "model/layers/layer_block.h"
#include "model/mtp_layer.h"

namespace monolith {

namespace {

// Returns the maximum of dim(layer) over all layers of the model.
template <typename Dim>
int64_t most(const HyperParams& p, Dim&& dim) {
  int64_t most = 0;
  for (const LayerParams& layer : p.layers) most = std::max<int64_t>(most, dim(layer));
  return most;
}

int64_t most_of_heads(const HyperParams& p, int dim) {
  return most(p, [&](const LayerParams& layer) { return latent_heads(p, layer, dim); });
}
// The numbers of channels and of values that delta-net layers need per token; 0 if there are no such layers.
int64_t delta_channels(const HyperParams& p) { return p.has_delta_nets() ? p.delta_net.channels() : 0; }
int64_t delta_values(const HyperParams& p) { return p.has_delta_nets() ? p.delta_net.values() : 0; }
// The maximums of these numbers over all kinds of recurrent layers: delta nets, state-space models and short
// convolutions.
int64_t recurrent_channels(const HyperParams& p) {
  return std::max({delta_channels(p), p.has_state_spaces() ? p.state_space.channels() : 0,
                   p.convolution_taps > 0 ? int64_t{p.n_embd} : 0});
}
int64_t recurrent_values(const HyperParams& p) {
  return std::max({delta_values(p), p.rwkv.n_heads > 0 ? int64_t{p.n_embd} : 0,
                   p.has_state_spaces() ? p.state_space.width() : 0, p.convolution_taps > 0 ? int64_t{p.n_embd} : 0});
}
int64_t gated_dim(const LayerParams& layer) { return layer.output_gate ? attended_dim(layer) : 0; }

}  // namespace

std::vector<ActivationBuffer> activation_buffers(const HyperParams& p, const ModelLimits& limits) {
  const int64_t rows = limits.max_batch_tokens;
  const int64_t logit_rows = std::min(limits.max_logit_rows, limits.max_batch_tokens);
  const IndexParams& index = p.latents.index;
  const DeltaNetParams& delta = p.delta_net;
  const bool beside = std::ranges::any_of(
      p.layers, [](const LayerParams& layer) { return layer.feed_forward == FeedForwardKind::kGatedAndMixture; });
  const bool early = std::ranges::any_of(p.layers, [&](const LayerParams& layer) { return early_input(p, layer); });
  const int64_t gates = p.head_gates ? p.most(&LayerParams::n_heads) : 0;
  const int64_t streams = p.streams.count > 1 ? p.streams.count : 0;
  const int64_t mixed = p.stream_mix.n_streams, numbers = p.stream_mix.mix(false).numbers();
  // The width of the values and scores from which blocks are pooled: twice the vector size if blocks overlap.
  const auto pooled = [&](bool of_index) {
    return most(p, [&](const LayerParams& layer) {
      if (layer.block == 0 || (of_index && !layer.chooses)) return int64_t{0};
      return layer.pool(of_index ? index.key_dim : layer.key_dim).width();
    });
  };
  const EagleParams* const eagle = p.draft.eagle.get();
  const int64_t rwkv = p.rwkv.n_heads > 0 ? p.n_embd : 0;
  std::vector<ActivationBuffer> buffers = {
      {&Activations::x, rows * p.n_embd},
      {&Activations::normed, rows * p.n_embd},
      {&Activations::final_states, p.pooling != Pooling::kNone ? rows * p.n_embd : 0},
      {&Activations::q, rows * std::max(most(p, q_dim), recurrent_channels(p))},
      {&Activations::k, rows * most(p, k_dim)},
      {&Activations::v, rows * most(p, v_dim)},
      {&Activations::attended, rows * std::max(most(p, attended_dim), recurrent_values(p))},
      {&Activations::mixer_gate, rows * std::max(most(p, gated_dim), recurrent_values(p))},
      {&Activations::decay, p.has_delta_nets() ? rows * delta.decays() : 0},
      {&Activations::beta, rows * std::max<int64_t>(delta.n_value_heads, p.state_space.space().steps())},
      {&Activations::low_decay, rows * std::max({delta.low_rank, p.state_space.step_rank, p.rwkv.max_rank()})},
      {&Activations::low_gate, rows * delta.low_rank},
      {&Activations::difference, rows * rwkv},
      {&Activations::shifted, rows * p.rwkv.inputs() * rwkv},
      {&Activations::projected, rows * kTimeMixInputs * rwkv},
      {&Activations::first_v, p.rwkv.delta ? rows * rwkv : 0},
      {&Activations::last_shifted, logit_rows * rwkv},
      {&Activations::space_groups, p.state_space.step_rank > 0 ? rows * 2 * p.state_space.space().group_width() : 0},
      {&Activations::parallel_input, p.parallel_norm || early ? rows * p.n_embd : 0},
      {&Activations::last_early, early ? logit_rows * p.n_embd : 0},
      {&Activations::branch, p.post_norm || p.residual_scale != 1.0f || mixed > 0 ? rows * p.n_embd : 0},
      {&Activations::gate, rows * dense_ff(p)},
      {&Activations::up, rows * dense_ff(p)},
      {&Activations::router, rows * p.experts.count},
      {&Activations::expert_in, rows * p.experts.latent},
      {&Activations::expert_out, rows * (p.experts.experts_per_chunk > 0 ? p.n_embd : p.experts.latent)},
      {&Activations::shared,
       p.experts.shared_gate || p.experts.shared_scale != 1.0f || beside || p.experts.experts_per_chunk > 0
           ? rows * p.n_embd
           : 0},
      {&Activations::shared_gate, p.experts.shared_gate ? rows : 0},
      {&Activations::low_q, rows * p.latents.q_rank},
      {&Activations::head_q, rows * most_of_heads(p, p.latents.key_dim)},
      {&Activations::head_values,
       rows * std::max(most_of_heads(p, p.latents.value_dim), int64_t{p.blocks.n_groups} * p.blocks.output_rank)},
      {&Activations::index_q, rows * index.n_heads * index.key_dim},
      {&Activations::index_k, p.latents.rank > 0 ? rows * index.key_dim : 0},
      {&Activations::block_values, rows * pooled(false)},
      {&Activations::block_scores, rows * pooled(false)},
      {&Activations::index_values, rows * pooled(true)},
      {&Activations::index_scores, rows * pooled(true)},
      {&Activations::block_rows, p.blocks.n_groups > 0 ? rows * most_head_dim(p) : 0},
      {&Activations::index_weights, rows * index.n_heads},
      {&Activations::chosen, rows * index.most},
      {&Activations::last_chosen, logit_rows * index.most},
      {&Activations::last_q, logit_rows * std::max(most(p, q_dim), recurrent_values(p))},
      {&Activations::last_gate, logit_rows * most(p, gated_dim)},
      {&Activations::last_x, logit_rows * p.n_embd},
      {&Activations::last_normed, p.parallel_residual ? logit_rows * p.n_embd : 0},
      {&Activations::head_gates, rows * gates},
      {&Activations::last_head_gates, logit_rows * gates},
      {&Activations::per_layer, rows * per_layer_dim(p)},
      {&Activations::last_per_layer, logit_rows * per_layer_dim(p)},
      {&Activations::per_layer_inner, rows * std::max(per_layer_dim(p), int64_t{2} * p.per_layer.dim)},
      {&Activations::streams, rows * std::max(streams, mixed) * p.n_embd},
      {&Activations::predicted, rows * std::max(streams, mixed) * p.n_embd},
      {&Activations::stream_numbers, rows * numbers},
      {&Activations::last_streams, logit_rows * mixed * p.n_embd},
      {&Activations::last_stream_numbers, logit_rows * numbers},
      {&Activations::mixing, rows * streams * (streams + 1)},
      {&Activations::laurel, streams > 0 ? rows * p.n_embd : 0},
      {&Activations::laurel_inner, rows * p.streams.laurel_rank},
      {&Activations::inputs, p.n_deepstack > 0 ? rows * p.input_width() : 0},
      {&Activations::deepstack, p.n_deepstack > 0 ? rows * p.n_embd : 0},
      {&Activations::hidden, p.draft.used ? hidden_rows(limits, p.draft.n_levels) * draft_dim(p) : 0},
      {&Activations::draft_inputs, p.draft.used ? rows * 2 * draft_dim(p) : 0},
      {&Activations::sources, eagle ? rows * eagle->sources_dim() : 0},
      {&Activations::joined, eagle ? std::min<int64_t>(rows, kJoinedRows) * eagle->sources_dim() : 0},
      {&Activations::logits, logit_rows * p.n_vocab},
  };
  // The EAGLE-3 head runs after the model's layers and reuses their buffers.
  if (eagle != nullptr) {
    const std::vector<ActivationBuffer> own = activation_buffers(eagle->own, limits);
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].count = std::max(buffers[i].count, own[i].count);
  }
  return buffers;
}

int64_t dense_ff(const HyperParams& p) {
  const auto dense = [](const LayerParams& layer) {
    return layer.mixture() || layer.feed_forward == FeedForwardKind::kNone ? 0 : layer.n_ff;
  };
  return std::max<int64_t>(most(p, dense), p.experts.n_ff_shared);
}

int64_t draft_dim(const HyperParams& p) { return p.draft.eagle ? p.draft.eagle->own.n_embd : p.n_embd; }

int64_t widest_row(const HyperParams& p) {
  // A batched matmul with one matrix per head requires each head's input to be padded to a multiple of 32 values.
  const LatentParams& latents = p.latents;
  const int head = (std::max({latents.key_dim, latents.value_dim, latents.rank}) + 31) / 32 * 32;
  // The input of each group of heads is likewise padded to a multiple of 32 values.
  const int64_t groups = std::max(p.blocks.n_groups, 1);
  const int64_t grouped = p.blocks.n_groups > 0 ? groups * ((most(p, attended_dim) / groups + 31) / 32 * 32) : 0;
  const int64_t drafting =
      p.draft.used ? std::max(2 * draft_dim(p), p.draft.eagle ? p.draft.eagle->sources_dim() : 0) : 0;
  return std::max({drafting, int64_t{p.n_embd}, int64_t{p.stream_mix.n_streams} * p.n_embd, grouped,
                   groups * p.blocks.output_rank, most(p, q_dim), most(p, attended_dim), dense_ff(p), per_layer_dim(p),
                   most_of_heads(p, head), int64_t{latents.q_rank},
                   int64_t{latents.index.n_heads} * latents.index.key_dim, recurrent_channels(p), recurrent_values(p),
                   int64_t{p.state_space.step_rank}, int64_t{p.rwkv.max_rank()}});
}

MixtureShape mixture_shape(const HyperParams& p) {
  const ExpertParams& experts = p.experts;
  if (experts.count == 0) return {};
  return {experts.count, experts.used, experts.latent > 0 ? experts.latent : p.n_embd,
          std::max(experts.n_ff, experts.n_ff_chunk)};
}

HeadProductShape head_product_shape(const HyperParams& p) {
  const LatentParams& latents = p.latents;
  const auto heads = [](const LayerParams& layer) { return layer.latent() ? layer.n_heads : 0; };
  if (p.blocks.n_groups > 0)
    return {p.blocks.n_groups, p.blocks.output_rank, most(p, attended_dim) / p.blocks.n_groups};
  const auto n_heads = latents.rank > 0 ? static_cast<int>(most(p, heads)) : 0;
  if (n_heads == 0) return {};
  constexpr int64_t kMultiple = kExpertRowMultiple;
  const int64_t rows = std::max(latents.rank, latents.value_dim);
  return {n_heads, (rows + kMultiple - 1) / kMultiple * kMultiple, std::max(latents.rank, latents.key_dim)};
}

}  // namespace monolith
