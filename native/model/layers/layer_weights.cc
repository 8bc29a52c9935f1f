#include "model/layers/layer_weights.h"

#include "model/weight_list.h"

namespace monolith {

void list_weights(const LayerParams& layer, LayerWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  switch (layer.mixer) {
    case MixerKind::kAttention: list_weights(layer, weights.attention, list); break;
    case MixerKind::kLatentAttention: list_weights(layer, weights.latent_attention, list); break;
    case MixerKind::kBlockAttention: list_weights(layer, weights.block_attention, list); break;
    case MixerKind::kDeltaNet: list_weights(layer, weights.delta_net, list); break;
    case MixerKind::kAttentionAndMamba2:
      list_weights(layer, weights.attention, list);
      list_weights(weights.mamba2, list);
      break;
    case MixerKind::kTimeMix: list_weights(layer, weights.time_mix, list); break;
    case MixerKind::kMamba: list_weights(weights.mamba, list); break;
    case MixerKind::kMamba2: list_weights(weights.mamba2, list); break;
    case MixerKind::kShortConvolution: list_weights(weights.short_convolution, list); break;
    case MixerKind::kLinear:
      list.norm("attn_norm.weight", p.n_embd, weights.attention.norm);
      list.matrix("attn_output.weight", p.n_embd, p.n_embd, weights.attention.output);
      break;
    case MixerKind::kNone: break;
  }
  if (p.stream_mix.n_streams > 0) {
    list_weights("hc_attn", false, weights.mixer_mix, list);
    list_weights("hc_ffn", false, weights.network_mix, list);
  }
  if (layer.feed_forward == FeedForwardKind::kNone) return;
  if (p.pre_norm && (!p.parallel_residual || p.parallel_norm)) list.norm(p.ffn_norm_name, p.n_embd, weights.ffn_norm);
  if (layer.mixes_channels()) return list_weights(layer, weights.channel_mix, list);
  if (!layer.mixture()) list_weights(layer, weights.network, list);
  if (layer.has_experts()) list_weights(layer, weights.experts, weights.network, list);
  if (p.post_norm) list.norm(p.ffn_post_norm_name, p.n_embd, weights.ffn_post_norm);
  list_weights(weights.per_layer, list);
  list_weights(weights.streams, list);
}

}  // namespace monolith
