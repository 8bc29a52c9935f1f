#include "model/layers/make_layer.h"

#include <string>

#include "model/layers/attention.h"
#include "model/layers/block_attention.h"
#include "model/layers/delta_net.h"
#include "model/layers/moe.h"
#include "model/layers/feed_forward.h"
#include "model/layers/latent_attention.h"
#include "model/layers/mamba.h"
#include "model/layers/mamba2.h"
#include "model/layers/per_layer_input.h"
#include "model/layers/rwkv.h"
#include "model/layers/short_convolution.h"
#include "model/layers/streams.h"

namespace monolith {
namespace {

using Parts = std::vector<std::unique_ptr<LayerBlock>>;

Status add_mixer(const LayerContext& context, Parts& parts) {
  const LayerParams& layer = context.layer;
  switch (layer.mixer) {
    case MixerKind::kAttention: parts.push_back(std::make_unique<Attention>(context)); return {};
    case MixerKind::kLatentAttention: parts.push_back(std::make_unique<LatentAttention>(context)); return {};
    case MixerKind::kBlockAttention: parts.push_back(std::make_unique<BlockAttention>(context)); return {};
    case MixerKind::kDeltaNet: parts.push_back(std::make_unique<DeltaNet>(context)); return {};
    case MixerKind::kTimeMix: parts.push_back(std::make_unique<TimeMixer>(context)); return {};
    case MixerKind::kMamba: parts.push_back(std::make_unique<Mamba>(context)); return {};
    case MixerKind::kMamba2: parts.push_back(std::make_unique<Mamba2>(context)); return {};
    case MixerKind::kShortConvolution: parts.push_back(std::make_unique<ShortConvolution>(context)); return {};
    case MixerKind::kAttentionAndMamba2:  // The first block computes the norm that both read.
      parts.push_back(std::make_unique<Mamba2>(context));
      parts.push_back(std::make_unique<Attention>(context));
      return {};
    case MixerKind::kLinear: parts.push_back(std::make_unique<LinearMixer>(context)); return {};
    case MixerKind::kNone: return {};
  }
  return {};
}

Status add_feed_forward(const LayerContext& context, const BackendMemory& backend, Parts& parts) {
  switch (context.layer.feed_forward) {
    case FeedForwardKind::kGated: parts.push_back(std::make_unique<GatedMlp>(context)); return {};
    case FeedForwardKind::kPlain: parts.push_back(std::make_unique<Mlp>(context)); return {};
    case FeedForwardKind::kGatedBesideMixture: parts.push_back(std::make_unique<GatedMlp>(context)); [[fallthrough]];
    case FeedForwardKind::kMixture: {
      auto experts = std::make_unique<ExpertMixture>(context);
      const Mixture mixture = experts->mixture();
      if (Status status = backend.supports(mixture); !status) return status;
      if (context.params.experts.experts_per_chunk > 0) {
        const Mixture chunks = experts->chunk_mixture();
        if (Status status = backend.supports(chunks); !status) return status;
      }
      parts.push_back(std::move(experts));
      return {};
    }
    case FeedForwardKind::kGatedAndMixture: {
      auto both = std::make_unique<NetworkAndExperts>(context);
      const Mixture mixture = both->mixture();
      if (Status status = backend.supports(mixture); !status) return status;
      parts.push_back(std::move(both));
      return {};
    }
    case FeedForwardKind::kChannelMix: parts.push_back(std::make_unique<ChannelMixer>(context)); return {};
    case FeedForwardKind::kNone: return {};
  }
  return {};
}

}  // namespace

Result<Parts> make_layer(const LayerContext& context, const BackendMemory& backend) {
  Parts parts;
  if (context.params.stream_mix.n_streams > 0) {
    const Status status = backend.supports(OperationKind::kHyperConnectionWeights);
    if (!status)
      return Error{status.error().code, "the model has " + std::to_string(context.params.stream_mix.n_streams) +
                                            " residual streams (hyper-connections): " + status.error().message};
  }
  const bool streams = context.params.streams.count > 1;
  if (streams) {
    parts.push_back(std::make_unique<PredictStreams>(context));
    parts.push_back(std::make_unique<Laurel>(context));
  }
  if (Status status = add_mixer(context, parts); !status) return status.error();
  if (streams) parts.push_back(std::make_unique<JoinLaurel>(context));
  if (Status status = add_feed_forward(context, backend, parts); !status) return status.error();
  if (streams)
    parts.push_back(std::make_unique<CorrectStreams>(context));
  else if (context.params.per_layer.dim > 0)
    parts.push_back(std::make_unique<PerLayerInput>(context));
  if (context.layer.output_scale != 1.0f) parts.push_back(std::make_unique<OutputScale>(context));
  return parts;
}

}  // namespace monolith
