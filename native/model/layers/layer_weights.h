// The weights of one layer, for all kinds of blocks.
#pragma once

#include "model/layers/attention_weights.h"
#include "model/layers/recurrent_weights.h"
#include "model/layers/rwkv_weights.h"
#include "model/layers/feed_forward_weights.h"
#include "model/layers/per_layer_input_weights.h"
#include "model/layers/stream_weights.h"

namespace monolith {

// Members for blocks that the layer does not have are empty.
struct LayerWeights {
  AttentionWeights attention;
  LatentAttentionWeights latent_attention;
  BlockAttentionWeights block_attention;
  DeltaNetWeights delta_net;
  MambaWeights mamba;
  TimeMixWeights time_mix;
  ChannelMixWeights channel_mix;
  Mamba2Weights mamba2;
  ShortConvolutionWeights short_convolution;
  NormWeights ffn_norm;
  NetworkWeights network;  // The dense network, or the shared expert of an MoE layer.
  ExpertWeights experts;
  NormWeights ffn_post_norm;
  PerLayerInputWeights per_layer;
  StreamWeights streams;
  StreamMixWeights mixer_mix, network_mix;
};

// Adds the tensors that the current layer of `list` needs.
void list_weights(const LayerParams& layer, LayerWeights& weights, WeightList& list);

}  // namespace monolith
