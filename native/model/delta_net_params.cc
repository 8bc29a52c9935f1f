// Reads the sizes of delta-net layers from metadata.
#include <string>

#include "model/layer_params.h"

namespace monolith {
namespace {

constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxInner = 1 << 20;

Error misfit(const MetadataReader& read, std::string_view key, int value, std::string_view other_key, int other) {
  return {ErrorCode::kInvalidFile, "'" + read.key(key) + "' (" + std::to_string(value) + ") is not a multiple of '" +
                                       read.key(other_key) + "' (" + std::to_string(other) + ")"};
}

// In Kimi delta attention, there are as many key heads as value heads, and all heads have the same size.
Status read_channel_decay(const GgufFile& file, const MetadataReader& read, HyperParams& params) {
  DeltaNetParams& delta = params.delta_net;
  auto heads = read.integers("attention.head_count", params.n_layers, 0, kMaxHeads);
  if (!heads) return heads.error();
  auto dim = read.integer("kda.head_dim", 1, kMaxDeltaKeyDim);
  if (!dim) return dim.error();
  for (int i = 0; i < params.n_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    if (params.layers[at].mixer != MixerKind::kDeltaNet) continue;
    if ((*heads)[at] == 0 || (delta.n_value_heads > 0 && (*heads)[at] != delta.n_value_heads))
      return Error{ErrorCode::kUnsupported, "layer " + std::to_string(i) + " is a delta-net layer with " +
                                                std::to_string((*heads)[at]) +
                                                " heads, but all must have the same number, at least 1"};
    delta.n_key_heads = delta.n_value_heads = (*heads)[at];
    if (delta.low_rank > 0) continue;
    const GgufTensor* low = file.tensor("blk." + std::to_string(i) + ".ssm_f_a.weight");
    delta.low_rank = low != nullptr && low->shape[1] <= kMaxInner ? static_cast<int>(low->shape[1]) : *dim;
  }
  delta.key_dim = delta.value_dim = *dim;
  delta.channel_decay = delta.apart = true;
  delta.gate = Activation::kSigmoid;
  return {};
}

Status read_head_decay(const MetadataReader& read, DeltaNetKind kind, DeltaNetParams& delta) {
  constexpr std::string_view kKeyHeads = "ssm.group_count", kValueHeads = "ssm.time_step_rank",
                             kInner = "ssm.inner_size";
  auto key_dim = read.integer("ssm.state_size", 1, kMaxDeltaKeyDim);
  if (!key_dim) return key_dim.error();
  auto key_heads = read.integer(kKeyHeads, 1, kMaxHeads);
  if (!key_heads) return key_heads.error();
  auto value_heads = read.integer(kValueHeads, 1, kMaxHeads);
  if (!value_heads) return value_heads.error();
  auto inner = read.integer(kInner, 1, kMaxInner);
  if (!inner) return inner.error();
  if (*value_heads % *key_heads != 0) return misfit(read, kValueHeads, *value_heads, kKeyHeads, *key_heads);
  if (*inner % *value_heads != 0) return misfit(read, kInner, *inner, kValueHeads, *value_heads);
  delta.n_key_heads = *key_heads;
  delta.n_value_heads = *value_heads;
  delta.key_dim = *key_dim;
  delta.value_dim = *inner / *value_heads;
  delta.tiled = kind == DeltaNetKind::kTiled;
  delta.grouped_beta = kind == DeltaNetKind::kRuns;
  return {};
}

}  // namespace

Status read_delta_nets(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                       HyperParams& params) {
  bool any = false;
  for (const LayerParams& layer : params.layers) any |= layer.mixer == MixerKind::kDeltaNet;
  if (!any) return {};
  auto taps = read.integer("ssm.conv_kernel", 1, kMaxTaps);
  if (!taps) return taps.error();
  params.delta_net.conv_kernel_size = *taps;
  if (traits.delta_net == DeltaNetKind::kChannels) return read_channel_decay(file, read, params);
  for (int i = 0; i < params.n_layers && traits.delta_net == DeltaNetKind::kRuns; ++i)
    params.delta_net.grouped_mixed |= params.layers[static_cast<size_t>(i)].mixer == MixerKind::kDeltaNet &&
                                      file.tensor("blk." + std::to_string(i) + ".ssm_in.weight") != nullptr;
  return read_head_decay(read, traits.delta_net, params.delta_net);
}

}  // namespace monolith
