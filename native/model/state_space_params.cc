// Reads the sizes of state-space models and short convolutions from metadata.
#include <algorithm>
#include <string>

#include "model/layer_params.h"

namespace monolith {
namespace {

constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxState = 4096;
constexpr int64_t kMaxInner = 1 << 20;

Error misfit(const MetadataReader& read, std::string_view key, int value, std::string_view other_key, int other) {
  return {ErrorCode::kInvalidFile, "'" + read.key(key) + "' (" + std::to_string(value) + ") is not a multiple of '" +
                                       read.key(other_key) + "' (" + std::to_string(other) + ")"};
}

Status read_state_space(const GgufFile& file, const MetadataReader& read, HyperParams& params) {
  constexpr std::string_view kInner = "ssm.inner_size", kHeads = "ssm.time_step_rank", kGroups = "ssm.group_count";
  auto taps = read.integer("ssm.conv_kernel", 1, kMaxTaps);
  if (!taps) return taps.error();
  auto inner = read.integer(kInner, 1, kMaxInner);
  if (!inner) return inner.error();
  auto heads = read.integer(kHeads, 1, kMaxHeads);
  if (!heads) return heads.error();
  auto groups = read.integer(kGroups, 1, kMaxHeads);
  if (!groups) return groups.error();
  auto state = read.integer("ssm.state_size", 1, kMaxState);
  if (!state) return state.error();
  if (*inner % *heads != 0) return misfit(read, kInner, *inner, kHeads, *heads);
  if (*heads % *groups != 0) return misfit(read, kHeads, *heads, kGroups, *groups);
  params.state_space = {.n_heads = *heads,
                        .n_groups = *groups,
                        .head_dim = *inner / *heads,
                        .state_dim = *state,
                        .conv_kernel_size = *taps};
  const auto carried = [&](const std::string& name) {
    for (int i = 0; i < params.n_layers; ++i)
      if (file.tensor("blk." + std::to_string(i) + "." + name) != nullptr) return true;
    return false;
  };
  params.state_space.out_norm = carried("ssm_norm.weight");
  params.state_space.convolution_bias = carried("ssm_conv1d.bias");
  return {};
}

}  // namespace

Status read_state_spaces(const GgufFile& file, const MetadataReader& read, HyperParams& params) {
  if (std::ranges::any_of(params.layers, &LayerParams::has_state_space))
    if (Status s = read_state_space(file, read, params); !s) return s;
  const auto convolves = [](const LayerParams& layer) { return layer.mixer == MixerKind::kShortConvolution; };
  if (std::ranges::none_of(params.layers, convolves)) return {};
  auto taps = read.integer("shortconv.l_cache", 1, kMaxTaps);
  if (!taps) return taps.error();
  params.convolution_taps = *taps;
  return {};
}

}  // namespace monolith
