#include "model/layer_params.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/rope_frequencies.h"

namespace monolith {
namespace {

constexpr int64_t kMaxWindow = INT32_MAX;
constexpr int64_t kMaxExperts = 1 << 12;

// windowed[i]: layer i sees a window. The key is a period, each so-manieth layer seeing all, or one
// flag per layer.
Result<std::vector<bool>> read_pattern(const MetadataReader& read, const ArchitectureTraits& traits,
                                       int n_layers) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const auto n = static_cast<size_t>(n_layers);
  if (read.is_array(kKey)) {
    auto flags = read.flags(kKey);
    if (!flags) return flags.error();
    if (flags->size() != n) {
      return Error{ErrorCode::kInvalidFile, "metadata key '" + read.key(kKey) + "' has " +
                                                std::to_string(flags->size()) +
                                                " elements, expected one per layer, " +
                                                std::to_string(n_layers)};
    }
    return flags;
  }
  auto period = read.integer(kKey, 0, kMaxWindow, traits.window_period);
  if (!period) return period.error();
  std::vector<bool> windowed(n);
  for (int i = 0; i < n_layers; ++i)
    windowed[static_cast<size_t>(i)] = *period == 0 || i % *period < *period - 1;
  return windowed;
}

Status read_windows(const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params) {
  constexpr std::string_view kKey = "attention.sliding_window";
  if (traits.windows == Windows::kRefused) {
    // A window as long as the context hides nothing.
    auto window = read.number(kKey, 0, 1e18, 0.0);
    if (!window) return window.error();
    if (*window > 0 && *window < params.context_length)
      return read.refuse_unless(kKey, 0, "a sliding attention window");
    return {};
  }
  auto window = read.integer(kKey, 0, kMaxWindow, traits.default_window);
  if (!window) return window.error();
  if (*window == 0) return {};
  std::vector<bool> windowed(params.layers.size(), true);
  if (traits.windows == Windows::kPattern) {
    auto pattern = read_pattern(read, traits, params.n_layers);
    if (!pattern) return pattern.error();
    windowed = std::move(*pattern);
  }
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i]) params.layers[i].window = *window;
  }
  return {};
}

// The second set of frequencies, where layers with a window have their own.
Status read_windowed_rope(const MetadataReader& read, const ArchitectureTraits& traits,
                          HyperParams& params) {
  const bool own = traits.windowed_rope == WindowedRope::kOwnBase;
  auto base = own ? read.number("rope.freq_base_swa", kMinRopeBase, kMaxRopeBase,
                                traits.windowed_base)
                  : read.number("rope.freq_base", kMinRopeBase, kMaxRopeBase, kDefaultRopeBase);
  if (!base) return base.error();
  const std::vector<double> frequencies = plain_rope_frequencies(params.rope_dims, *base);
  params.ropes.push_back({{frequencies.begin(), frequencies.end()}, 1.0f});
  for (LayerParams& layer : params.layers) {
    if (layer.window > 0) layer.rope = 1;
  }
  return {};
}

}  // namespace

Status read_layers(const GgufFile& file, const MetadataReader& read,
                   const ArchitectureTraits& traits, int max_context, HyperParams& params) {
  params.layers.assign(static_cast<size_t>(params.n_layers), {});
  if (Status s = read_windows(read, traits, params); !s) return s;
  auto rope = read_rope_frequencies(file, params.architecture_name, params.rope_dims,
                                    params.context_length,
                                    max_context > 0 ? max_context : params.context_length,
                                    traits.rope_factors);
  if (!rope) return rope.error();
  params.ropes.push_back(std::move(*rope));
  if (traits.windowed_rope != WindowedRope::kSame) {
    if (Status s = read_windowed_rope(read, traits, params); !s) return s;
  }
  if (traits.rope_switch) {
    auto rotates = read.boolean("rope.scaling.finetuned", true);
    if (!rotates) return rotates.error();
    if (!*rotates) {
      for (LayerParams& layer : params.layers) layer.rope = -1;
    }
  }
  for (int i = 0; i < params.n_layers && traits.unrotated_period > 0; ++i) {
    if ((i + 1) % traits.unrotated_period == 0) params.layers[static_cast<size_t>(i)].rope = -1;
  }
  return {};
}

Status read_experts(const GgufFile& file, const MetadataReader& read,
                    const ArchitectureTraits& traits, HyperParams& params) {
  if (traits.experts == Experts::kNone)
    return read.refuse_unless("expert_count", 0, "a mixture of experts");
  const bool required = traits.experts == Experts::kRequired;
  auto count = required ? read.integer("expert_count", 1, kMaxExperts)
                        : read.integer("expert_count", 0, kMaxExperts, 0);
  if (!count) return count.error();
  if (*count == 0) return {};
  for (const auto& [key, harmless, what] :
       {std::tuple{"expert_gating_func", 1, "a router without softmax"},
        std::tuple{"expert_group_count", 1, "a choice among groups of experts"},
        std::tuple{"leading_dense_block_count", 0, "a mixture of experts in some layers only"},
        std::tuple{"interleave_moe_layer_step", 1, "a mixture of experts in some layers only"},
        std::tuple{"moe_every_n_layers", 0, "a mixture of experts in some layers only"}}) {
    auto value = read.number(key, 0, 1e9, harmless);
    if (!value) return value.error();
    if (*value == 0) continue;   // not set
    if (Status s = read.refuse_unless(key, harmless, what); !s) return s;
  }
  ExpertParams& experts = params.experts;
  experts.count = *count;
  // Files from before the key leave the size to the tensor.
  const GgufTensor* gate = file.tensor("blk.0.ffn_gate_exps.weight");
  const int64_t held =
      gate != nullptr && gate->shape[1] <= kMaxFeedForward ? gate->shape[1] : params.n_ff;
  auto used = read.integer("expert_used_count", 1, *count);
  if (!used) return used.error();
  auto n_ff = read.integer("expert_feed_forward_length", 1, kMaxFeedForward, held);
  if (!n_ff) return n_ff.error();
  auto scale = read.number("expert_weights_scale", 0, 1e6, 0.0);
  if (!scale) return scale.error();
  auto normalized = read.boolean("expert_weights_norm", traits.normalized_weights);
  if (!normalized) return normalized.error();
  const bool gated = traits.shared_expert == SharedExpert::kGated;
  if (traits.shared_expert == SharedExpert::kNone) {
    Status s = read.refuse_unless("expert_shared_feed_forward_length", 0, "a shared expert");
    if (!s) return s;
  }
  auto shared = read.integer("expert_shared_feed_forward_length", gated ? 1 : 0, kMaxFeedForward,
                             gated ? params.n_ff : 0);
  if (!shared) return shared.error();
  experts.used = *used;
  experts.n_ff = *n_ff;
  experts.scale = *scale > 0 ? static_cast<float>(*scale) : 1.0f;
  experts.normalized = *normalized;
  experts.n_ff_shared = *shared;
  experts.shared_gate = gated;
  for (const auto& [what, value] :
       {std::pair{"'" + read.key("embedding_length") + "'", params.n_embd},
        std::pair{std::string("the experts' feed-forward length"), *n_ff}}) {
    if (value % kExpertRowMultiple == 0) continue;
    return Error{ErrorCode::kUnsupported,
                 what + " is " + std::to_string(value) +
                     "; a mixture of experts is supported where it is a multiple of " +
                     std::to_string(kExpertRowMultiple)};
  }
  params.n_ff = *n_ff;
  return {};
}

}  // namespace monolith
