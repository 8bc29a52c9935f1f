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

// Determines which optional tensors the file contains.
void read_carried(const GgufFile& file, HyperParams& params) {
  const auto carried = [&](const std::string& name) {
    for (int i = 0; i < params.n_layers; ++i)
      if (file.tensor("blk." + std::to_string(i) + "." + name) != nullptr) return true;
    return false;
  };
  params.state_space.out_norm = carried("ssm_norm.weight");
  params.state_space.convolution_bias = carried("ssm_conv1d.bias");
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
  read_carried(file, params);
  return {};
}

// Mamba: the inner size is the number of channels, and time_step_rank the rank of the step projection. PLaMo 2 has
// heads as in Mamba-2, and time_step_rank is the number of heads.
Status read_mamba(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                  HyperParams& params) {
  constexpr std::string_view kInner = "ssm.inner_size", kRank = "ssm.time_step_rank", kNorm = "ssm.dt_b_c_rms";
  auto taps = read.integer("ssm.conv_kernel", 1, kMaxTaps);
  if (!taps) return taps.error();
  auto inner = read.integer(kInner, 1, kMaxInner);
  if (!inner) return inner.error();
  auto rank = read.integer(kRank, 1, traits.space_heads ? kMaxHeads : kMaxInner);
  if (!rank) return rank.error();
  auto state = read.integer("ssm.state_size", 1, kMaxState);
  if (!state) return state.error();
  if (Status s = read.refuse_unless("ssm.group_count", 0, "several groups of B and C"); !s) return s;
  auto normed = read.boolean(kNorm, false);
  if (!normed) return normed.error();
  const int heads = traits.space_heads ? *rank : 1;
  if (*inner % heads != 0) return misfit(read, kInner, *inner, kRank, heads);
  params.state_space = {.n_heads = heads,
                        .n_groups = 1,
                        .head_dim = *inner / heads,
                        .state_dim = *state,
                        .conv_kernel_size = *taps,
                        .step_rank = traits.space_heads ? std::max(64, params.n_embd / 16) : *rank,
                        .channel_steps = !traits.space_heads,
                        .gate_first = traits.space_heads,
                        .projection_norm = traits.space_norms ? ProjectionNorm::kWeighted
                                           : *normed          ? ProjectionNorm::kUnweighted
                                                              : ProjectionNorm::kNone};
  read_carried(file, params);
  return {};
}

}  // namespace

Status read_state_spaces(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                         HyperParams& params) {
  if (std::ranges::any_of(params.layers, &LayerParams::has_state_space)) {
    const bool mamba = traits.other_mixer == MixerKind::kMamba;
    if (Status s = mamba ? read_mamba(file, read, traits, params) : read_state_space(file, read, params); !s) return s;
  }
  const auto convolves = [](const LayerParams& layer) { return layer.mixer == MixerKind::kShortConvolution; };
  if (std::ranges::none_of(params.layers, convolves)) return {};
  auto taps = read.integer("shortconv.l_cache", 1, kMaxTaps);
  if (!taps) return taps.error();
  params.convolution_taps = *taps;
  return {};
}

}  // namespace monolith
