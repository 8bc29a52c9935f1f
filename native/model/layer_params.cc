#include "model/layer_params.h"

#include <algorithm>
#include <string>
#include <string_view>
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

// Keys that would give layers with a window rotations that are not computed.
Status refuse_other_rotations(const MetadataReader& read, const ArchitectureTraits& traits,
                              const HyperParams& params) {
  if (Status s = read.refuse_unless("rope.dimension_count_swa", params.rope_dims,
                                    "RoPE over other dimensions in layers with a window");
      !s) {
    return s;
  }
  if (traits.windowed_rope == WindowedRope::kOwnBase) return {};
  auto base = read.number("rope.freq_base", kMinRopeBase, kMaxRopeBase, kDefaultRopeBase);
  if (!base) return base.error();
  return read.refuse_unless("rope.freq_base_swa", *base,
                            "another RoPE base in layers with a window");
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

// Layers before the first stated have none, and of the others each so-manieth has.
Status read_mixture_layers(const MetadataReader& read, HyperParams& params) {
  auto lead = read.integer("leading_dense_block_count", 0, params.n_layers - 1, 0);
  if (!lead) return lead.error();
  int step = 1;
  for (const std::string_view key : {"interleave_moe_layer_step", "moe_every_n_layers"}) {
    auto stated = read.integer(key, 0, params.n_layers, 0);
    if (!stated) return stated.error();
    if (*stated > 0) step = *stated;
  }
  bool any = false;
  for (int i = *lead; i < params.n_layers; ++i) {
    const bool mixture = (i + 1) % step == 0;
    params.layers[static_cast<size_t>(i)].mixture = mixture;
    any |= mixture;
  }
  if (any) return {};
  return Error{ErrorCode::kInvalidFile, "'" + read.key("interleave_moe_layer_step") + "' and '" +
                                            read.key("leading_dense_block_count") +
                                            "' leave no layer for the experts"};
}

// Width of the network that all rows pass. Its tensors decide: converters do not agree on whether the
// key is that of one shared expert or of all.
Result<int> read_counted_experts(const GgufFile& file, const MetadataReader& read,
                                 const std::string& block, int n_ff) {
  auto count = read.integer("expert_shared_count", 0, kMaxExperts, 0);
  if (!count) return count.error();
  const int64_t counted = std::min<int64_t>(int64_t{*count} * n_ff, kMaxFeedForward);
  const auto width = [&](const char* name) {
    const GgufTensor* tensor = file.tensor(block + name);
    return tensor != nullptr && tensor->shape[1] <= kMaxFeedForward ? tensor->shape[1] : counted;
  };
  const int64_t gate = width("ffn_gate_shexp.weight"), up = width("ffn_up_shexp.weight");
  return static_cast<int>(gate == up ? gate : counted);
}

Status read_router(const MetadataReader& read, const ArchitectureTraits& traits,
                   ExpertParams& experts) {
  constexpr int kNotStated = 0, kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3;
  constexpr int kMaxGroups = 64;
  Router& router = experts.router;
  router.score = traits.router;
  auto score = read.integer("expert_gating_func", 0, 255, kNotStated);
  if (!score) return score.error();
  if (*score == kSoftmax || *score == kSoftmaxOfChosen) {
    router.score = RouterScore::kSoftmax;
    // Of a softmax over those chosen, by their logits alone, only their proportions are left.
    if (*score == kSoftmaxOfChosen) {
      router.normalized = true;
      experts.choice_bias = false;
    }
  } else if (*score == kSigmoid) {
    router.score = RouterScore::kSigmoid;
  } else if (*score != kNotStated) {
    return read.refuse_unless("expert_gating_func", kSoftmax,
                              "a router with neither softmax nor sigmoid");
  }
  auto groups = read.integer("expert_group_count", 0, kMaxGroups, 0);
  if (!groups) return groups.error();
  if (*groups <= 1) return {};
  auto groups_used = read.integer("expert_group_used_count", 1, *groups);
  if (!groups_used) return groups_used.error();
  const int size = experts.count / *groups;
  if (experts.count % *groups != 0 || size < 2 || size * *groups_used < experts.used) {
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("expert_group_count") + "' is " + std::to_string(*groups) + " and '" +
                     read.key("expert_group_used_count") + "' is " + std::to_string(*groups_used) +
                     ", which " + std::to_string(experts.count) + " experts with " +
                     std::to_string(experts.used) + " for each row do not allow"};
  }
  if (*groups_used == *groups) return {};
  router.groups = *groups;
  router.groups_used = *groups_used;
  return {};
}

}  // namespace

Status read_layers(const GgufFile& file, const MetadataReader& read,
                   const ArchitectureTraits& traits, int max_context, HyperParams& params) {
  params.layers.assign(static_cast<size_t>(params.n_layers),
                       {.n_kv_heads = params.n_kv_heads, .key_dim = params.head_dim, .value_dim = params.head_dim});
  if (Status s = read_windows(read, traits, params); !s) return s;
  if (Status s = refuse_other_rotations(read, traits, params); !s) return s;
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
  if (traits.rotates_windows_only) {
    const auto windowed = [](const LayerParams& layer) { return layer.window > 0; };
    const bool any = std::ranges::any_of(params.layers, windowed);
    for (LayerParams& layer : params.layers) {
      if (any && !windowed(layer)) layer.rope = -1;
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
  if (Status s = read_mixture_layers(read, params); !s) return s;
  const auto first = std::ranges::find_if(params.layers, &LayerParams::mixture);
  const std::string block = "blk." + std::to_string(first - params.layers.begin()) + ".";
  ExpertParams& experts = params.experts;
  experts.count = *count;
  // Files from before the key leave the size to the tensor.
  const GgufTensor* gate = file.tensor(block + "ffn_gate_exps.weight");
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
  auto shared = traits.shared_expert == SharedExpert::kCounted
                    ? read_counted_experts(file, read, block, *n_ff)
                    : read.integer("expert_shared_feed_forward_length", gated ? 1 : 0,
                                   kMaxFeedForward, gated ? params.n_ff : 0);
  if (!shared) return shared.error();
  experts.used = *used;
  experts.n_ff = *n_ff;
  for (size_t i = 0; i < params.layers.size() && !experts.choice_bias; ++i)
    experts.choice_bias = file.tensor("blk." + std::to_string(i) + ".exp_probs_b.bias") != nullptr;
  experts.biases = traits.expert_biases;
  experts.router.normalized = *normalized;
  experts.router.scale = *scale > 0 ? static_cast<float>(*scale) : 1.0f;
  if (Status s = read_router(read, traits, experts); !s) return s;
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
  return {};
}

}  // namespace monolith
