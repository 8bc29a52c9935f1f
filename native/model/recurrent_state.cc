#include "model/recurrent_state.h"

#include <string>

#include "backend/loading.h"
#include "model/model.h"

namespace monolith {

int64_t recurrent_floats(const HyperParams& params, const LayerParams& layer) {
  switch (layer.mixer) {
    case MixerKind::kDeltaNet: {
      const DeltaNetParams& delta = params.delta_net;
      return delta.rule(0).state_floats() + int64_t{delta.conv_kernel_size - 1} * delta.channels();
    }
    case MixerKind::kMamba:
    case MixerKind::kMamba2:
    case MixerKind::kAttentionAndMamba2: {
      const StateSpaceParams& space = params.state_space;
      return space.space().state_floats() + int64_t{space.conv_kernel_size - 1} * space.channels();
    }
    case MixerKind::kBlockAttention:
      if (layer.block == 0) return 0;
      return layer.pool(layer.key_dim).state_floats() +
             (layer.chooses ? layer.pool(params.latents.index.key_dim).state_floats() : 0);
    // Time mixing and channel mixing also store the input of the last token.
    case MixerKind::kTimeMix: return params.rwkv.mix().state_floats() + int64_t{2} * params.n_embd;
    case MixerKind::kShortConvolution: return int64_t{params.convolution_taps - 1} * params.n_embd;
    default: return 0;
  }
}

std::vector<int64_t> recurrent_places(const HyperParams& params) {
  constexpr int64_t kLine = 16;  // In floats: each layer's state starts on a cache line boundary.
  std::vector<int64_t> places = {0};
  for (const LayerParams& layer : params.layers)
    places.push_back(places.back() + (recurrent_floats(params, layer) + kLine - 1) / kLine * kLine);
  return places;
}

namespace {

Status can_carry_on(const HyperParams& params, const LayerParams& layer, const BackendMemory& backend) {
  const auto convolves = [&](int64_t n_channels, int conv_kernel_size) {
    const Convolution convolution{.n_channels = static_cast<int>(n_channels), .conv_kernel_size = conv_kernel_size};
    return backend.supports(convolution);
  };
  switch (layer.mixer) {
    case MixerKind::kDeltaNet: {
      const DeltaNetParams& delta = params.delta_net;
      if (Status status = convolves(delta.channels(), delta.conv_kernel_size); !status) return status;
      const DeltaRule rule = delta.rule(params.norm_eps);
      return backend.supports(rule);
    }
    case MixerKind::kMamba:
    case MixerKind::kMamba2:
    case MixerKind::kAttentionAndMamba2: {
      const StateSpaceParams& shape = params.state_space;
      const StateSpace space = shape.space();
      if (Status status = convolves(shape.channels(), shape.conv_kernel_size); !status) return status;
      return backend.supports(space);
    }
    case MixerKind::kTimeMix: {
      const TimeMix mix = params.rwkv.mix();
      return backend.supports(mix);
    }
    case MixerKind::kShortConvolution: return convolves(params.n_embd, params.convolution_taps);
    default: return {};
  }
}

}  // namespace

Status can_carry_on(const HyperParams& params, const BackendMemory& backend) {
  for (size_t i = 0; i < params.layers.size(); ++i)
    if (Status status = can_carry_on(params, params.layers[i], backend); !status)
      return Error{status.error().code, "layer " + std::to_string(i) + ": " + status.error().message};
  return {};
}

}  // namespace monolith
