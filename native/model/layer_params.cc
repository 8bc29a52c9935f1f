#include "model/layer_params.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf/parser.h"
#include "model/rope_frequencies.h"

namespace monolith {
namespace {

constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxWindow = INT32_MAX;
constexpr int64_t kMaxExperts = 1 << 12;

// Reads the window pattern: windowed[i] means that layer i has a sliding window. The key contains either a period n,
// meaning that every n-th layer has no window, or one flag per layer. If the file does not cover the MTP layers, they
// follow the pattern of the first layers (as in EXAONE files).
Result<std::vector<bool>> read_pattern(const MetadataReader& read, const ArchitectureTraits& traits,
                                       const HyperParams& params) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const auto n_layers = static_cast<int>(params.layers.size());
  const auto n = static_cast<size_t>(n_layers), own = static_cast<size_t>(params.n_layers);
  if (read.is_array(kKey)) {
    auto flags = read.flags(kKey);
    if (!flags) return flags.error();
    for (size_t i = 0; flags->size() >= own && flags->size() < n && i < own; ++i) flags->push_back((*flags)[i]);
    // The file may contain extra flags for layers that are not loaded.
    if (flags->size() < n) {
      return Error{ErrorCode::kInvalidFile, "metadata key '" + read.key(kKey) + "' has " +
                                                std::to_string(flags->size()) + " elements, expected one per layer, " +
                                                std::to_string(n_layers)};
    }
    flags->resize(n);
    return flags;
  }
  auto period = read.integer(kKey, 0, kMaxWindow, traits.window_period);
  if (!period) return period.error();
  std::vector<bool> windowed(n);
  for (int i = 0; i < n_layers; ++i)
    windowed[static_cast<size_t>(i)] = *period == 0 || i % *period != (traits.full_layers_first ? 0 : *period - 1);
  return windowed;
}

Status read_windows(const MetadataReader& read, const ArchitectureTraits& traits, HyperParams& params) {
  constexpr std::string_view kKey = "attention.sliding_window";
  if (traits.windows == Windows::kRefused) {
    // A window that is at least as long as the context has no effect.
    auto window = read.number(kKey, 0, 1e18, 0.0);
    if (!window) return window.error();
    if (*window > 0 && *window < params.context_length)
      return read.refuse_unless(kKey, 0, "a sliding attention window");
    return {};
  }
  auto window = read.integer(kKey, 0, kMaxWindow, traits.default_window);
  if (!window) return window.error();
  if (*window == 0) return {};
  const bool chunks = traits.windows == Windows::kChunks;
  if (chunks) *window = traits.default_window;
  std::vector<bool> windowed(params.layers.size(), true);
  if (traits.windows != Windows::kEveryLayer) {
    auto pattern = read_pattern(read, traits, params);
    if (!pattern) return pattern.error();
    windowed = std::move(*pattern);
  }
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (!windowed[i]) continue;
    params.layers[i].window = *window;
    params.layers[i].chunked = chunks;
  }
  return {};
}

Error not_a_multiple(const MetadataReader& read, std::string_view key, int value, std::string_view divisor_key,
                     int divisor) {
  return {ErrorCode::kInvalidFile, "'" + read.key(key) + "' (" + std::to_string(value) + ") is not a multiple of '" +
                                       read.key(divisor_key) + "' (" + std::to_string(divisor) + ")"};
}

// Reads the kinds, head counts and sizes of the layers. Keys that end in _swa apply to layers with a sliding window.
Status read_shapes(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                   HyperParams& params) {
  const auto n = static_cast<int>(params.layers.size());
  const bool mixed = traits.other_mixer != MixerKind::kNone;
  // If the interval exceeds the number of layers, no layer has attention.
  constexpr int kUsualInterval = 4;
  auto interval = traits.attention_interval ? read.integer("full_attention_interval", 1, INT32_MAX, kUsualInterval)
                                            : Result<int>(1);
  if (!interval) return interval.error();
  const bool rwkv = traits.other_mixer == MixerKind::kTimeMix;
  const bool may_be_plain = traits.other_mixer == MixerKind::kMamba || traits.other_mixer == MixerKind::kMamba2;
  const auto no_heads = may_be_plain || rwkv ? std::optional<int64_t>(0) : std::nullopt;
  constexpr std::string_view kRecurrent = "attention.recurrent_layers";
  std::vector<int> recurrent(static_cast<size_t>(n));
  if (traits.attention_interval && read.has(kRecurrent)) {
    auto stated = read.integers(kRecurrent, params.n_layers, 0, 1);
    if (!stated) return stated.error();
    std::ranges::copy(*stated, recurrent.begin());
  } else {
    for (int i = 0; i < params.n_layers; ++i) recurrent[static_cast<size_t>(i)] = (i + 1) % *interval != 0;
  }
  auto heads = read.integers("attention.head_count", n, mixed ? 0 : 1, kMaxHeads, no_heads);
  if (!heads) return heads.error();
  auto kv_heads = read.has("attention.head_count_kv")
                      ? read.integers("attention.head_count_kv", n, mixed ? 0 : 1, kMaxHeads)
                      : heads;
  if (!kv_heads) return kv_heads.error();
  // In the file of a model that has only MoE layers, the width of dense layers may be missing.
  const bool may_lack_ff = mixed || traits.block_attention;
  const bool unstated = may_lack_ff && (traits.experts == Experts::kRequired || may_be_plain);
  const auto no_ff = unstated ? std::optional<int64_t>(0) : std::nullopt;
  auto n_ff = read.integers("feed_forward_length", n, may_lack_ff ? 0 : 1, kMaxFeedForward, no_ff);
  if (!n_ff) return n_ff.error();
  const auto with_heads = std::ranges::find_if(*heads, [](int count) { return count > 0; });
  const int first_heads = with_heads == heads->end() ? 0 : *with_heads;
  if (!read.has("attention.key_length") && first_heads > 0 && params.n_embd % first_heads != 0)
    return not_a_multiple(read, "embedding_length", params.n_embd, "attention.head_count", first_heads);
  // The value is not used if the layer has no attention heads.
  const int64_t usual = first_heads > 0 ? params.n_embd / first_heads : 2;
  auto key_dim = read.integer("attention.key_length", 2, kMaxHeadDim, usual);
  if (!key_dim) return key_dim.error();
  auto value_dim = read.integer("attention.value_length", 1, kMaxHeadDim, *key_dim);
  if (!value_dim) return value_dim.error();
  auto windowed_key = read.integer("attention.key_length_swa", 2, kMaxHeadDim, *key_dim);
  if (!windowed_key) return windowed_key.error();
  auto windowed_value = read.integer("attention.value_length_swa", 1, kMaxHeadDim, *value_dim);
  if (!windowed_value) return windowed_value.error();
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    LayerParams& layer = params.layers[at];
    layer.n_ff =
        traits.experts == Experts::kBesideLayer ? params.n_embd : (*n_ff)[at] / (traits.half_feed_forward ? 2 : 1);
    layer.feed_forward = layer.n_ff == 0   ? FeedForwardKind::kNone
                         : rwkv            ? FeedForwardKind::kChannelMix
                         : traits.gateless ? FeedForwardKind::kPlain
                                           : FeedForwardKind::kGated;
    const bool drafts = i >= params.n_layers;  // An MTP layer always has attention, regardless of the interval.
    if ((*kv_heads)[at] == 0 || recurrent[at] != 0) {
      if (drafts)
        return Error{ErrorCode::kUnsupported, "layer " + std::to_string(i) +
                                                  " is an MTP layer but has no attention ('" +
                                                  read.key("attention.head_count_kv") + "' is 0)"};
      const bool none =
          traits.one_part ? layer.n_ff > 0 : traits.other_mixer == MixerKind::kLinear && (*heads)[at] == 0;
      layer.mixer = none ? MixerKind::kNone : traits.other_mixer;
      continue;
    }
    if (rwkv)
      return Error{ErrorCode::kUnsupported, "layer " + std::to_string(i) + " has attention ('" +
                                                read.key("attention.head_count_kv") +
                                                "' is not 0), which is not supported with RWKV"};
    if (traits.other_mixer == MixerKind::kAttentionAndMamba2) layer.mixer = traits.other_mixer;
    layer.n_heads = (*heads)[at];
    layer.n_kv_heads = (*kv_heads)[at];
    if (layer.n_heads == 0 || layer.n_heads % layer.n_kv_heads != 0)
      return not_a_multiple(read, "attention.head_count", layer.n_heads, "attention.head_count_kv", layer.n_kv_heads);
    layer.key_dim = layer.window > 0 ? *windowed_key : *key_dim;
    layer.value_dim = layer.window > 0 ? *windowed_value : *value_dim;
    const std::string block = "blk." + std::to_string(i) + ".";
    layer.sinks = traits.sinks == Sinks::kAlways ||
                  (traits.sinks == Sinks::kWhereCarried && file.tensor(block + "attn_sinks.weight") != nullptr);
    layer.output_gate = traits.output_gate;
    layer.output_gate_apart = traits.output_gate_apart;
    layer.value_is_key = traits.key_as_value && file.tensor(block + "attn_v.weight") == nullptr;
  }
  return {};
}

// The last layers may use the keys and values of another layer. That layer is the last one with its own keys and values
// or, for layers with a sliding window, the layer before it. It must have the same shape as the layer that uses it.
Status read_shared_kv(const MetadataReader& read, const ArchitectureTraits& traits, HyperParams& params) {
  if (!traits.shared_kv) return {};
  const int n = params.n_layers;
  auto shared = read.integer("attention.shared_kv_layers", 0, n,
                             traits.own_kv_layers > 0 ? std::max(n - traits.own_kv_layers, 0) : 0);
  if (!shared) return shared.error();
  const int own = n - *shared;
  for (int i = own; i < n; ++i) {
    LayerParams& layer = params.layers[static_cast<size_t>(i)];
    const int from = own - (layer.window > 0 ? 2 : 1);
    const auto* source = from >= 0 ? &params.layers[static_cast<size_t>(from)] : nullptr;
    if (source == nullptr || source->window != layer.window || source->n_kv_heads != layer.n_kv_heads ||
        source->key_dim != layer.key_dim || source->value_dim != layer.value_dim) {
      return Error{ErrorCode::kUnsupported, "'" + read.key("attention.shared_kv_layers") + "' is " +
                                                std::to_string(*shared) + ": layer " + std::to_string(from) +
                                                " does not have the keys and values that layer " + std::to_string(i) +
                                                " needs"};
    }
    layer.kv_of = from;
  }
  return {};
}

// Reads the number of leading dimensions with RoPE, for layers with a sliding window (if `windowed` is set) or without
// one. `usual` is the default if the key is missing. Returns 0 if there are no such layers.
Result<int> read_rope_dims(const MetadataReader& read, std::string_view key, const HyperParams& params, bool windowed,
                           std::optional<int> usual = std::nullopt) {
  int head = 0;
  for (const LayerParams& layer : params.layers) {
    if (layer.attends() && (layer.window > 0) == windowed && (head == 0 || layer.key_dim < head)) head = layer.key_dim;
  }
  if (head == 0) return 0;
  auto dims = read.integer(key, 2, head, std::min(usual.value_or(head), head));
  if (dims && *dims % 2 != 0)
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key(key) + "' is " + std::to_string(*dims) + ", expected an even number"};
  return dims;
}

// Rejects keys that specify unsupported RoPE settings for layers with a sliding window.
Status refuse_other_rotations(const MetadataReader& read, const ArchitectureTraits& traits, int dims) {
  if (traits.windowed_rope == WindowedRope::kOwnBase) return {};
  if (Status s = read.refuse_unless("rope.dimension_count_swa", dims,
                                    "a different number of RoPE dimensions in layers with a sliding window");
      !s)
    return s;
  auto base = read.number("rope.freq_base", kMinRopeBase, kMaxRopeBase, kDefaultRopeBase);
  if (!base) return base.error();
  return read.refuse_unless("rope.freq_base_swa", *base, "a different RoPE base in layers with a sliding window");
}

// Adds a second RoPE set if layers with a sliding window have different RoPE settings.
Status read_windowed_rope(const MetadataReader& read, const ArchitectureTraits& traits, int dims, HyperParams& params) {
  const bool own = traits.windowed_rope == WindowedRope::kOwnBase;
  auto base = own ? read.number("rope.freq_base_swa", kMinRopeBase, kMaxRopeBase, traits.windowed_base)
                  : read.number("rope.freq_base", kMinRopeBase, kMaxRopeBase, kDefaultRopeBase);
  if (!base) return base.error();
  const std::vector<double> frequencies = plain_rope_frequencies(dims, *base);
  RopeSet windowed;
  windowed.n_dims = dims;
  windowed.inverse_frequency.assign(frequencies.begin(), frequencies.end());
  params.ropes.push_back(std::move(windowed));
  for (LayerParams& layer : params.layers) {
    if (layer.window > 0) layer.rope = 1;
  }
  return {};
}

// Pairs in a fourth section do not rotate: for text, that component of the position is 0.
Status leave_fourth_section(const MetadataReader& read, std::span<const int> sections, RopeSet& rope) {
  constexpr std::string_view kSections = "rope.dimension_sections";
  auto all = read.integers(kSections, 4, 0, rope.n_dims / 2);
  if (!all || (*all)[3] == 0) return {};  // There may be only three sections.
  const int first = sections[0] + sections[1] + sections[2];
  for (int pair = 0; pair < rope.n_dims / 2; ++pair)
    if (pair % (first + (*all)[3]) >= first) rope.inverse_frequency[static_cast<size_t>(pair)] = 0;
  return {};
}

// Reads all RoPE sets and assigns them to layers.
Status read_ropes(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits, int max_context,
                  HyperParams& params) {
  constexpr std::string_view kKey = "rope.dimension_count", kWindowed = "rope.dimension_count_swa";
  auto full_dims = read_rope_dims(read, kKey, params, false);
  if (!full_dims) return full_dims.error();
  if (traits.full_layers_rotate_half) *full_dims = *full_dims / 2 / 2 * 2;
  const bool own = traits.windowed_rope == WindowedRope::kOwnBase && read.has(kWindowed);
  auto windowed_dims = read_rope_dims(read, own ? kWindowed : kKey, params, true);
  if (!windowed_dims) return windowed_dims.error();
  const int dims = *full_dims > 0 ? *full_dims : *windowed_dims;  // All layers may have a sliding window.
  if (dims == 0) return {};                                       // No layer has attention.
  if (Status s = refuse_other_rotations(read, traits, dims); !s) return s;
  auto rope = read_rope_frequencies(file, params.architecture_name, dims, params.context_length,
                                    max_context > 0 ? max_context : params.context_length, traits.rope_factors,
                                    traits.yarn_log);
  if (!rope) return rope.error();
  constexpr std::string_view kSections = "rope.dimension_sections";
  if (traits.rope_sections && read.has(kSections)) {
    auto sections = read.integers(kSections, 3, 0, dims / 2);
    if (!sections) return sections.error();
    rope->axes = rope_axes(dims / 2, *sections, traits.interleaved_sections);
    if (Status s = leave_fourth_section(read, *sections, *rope); !s) return s;
  }
  params.ropes.push_back(std::move(*rope));
  if (traits.windowed_rope == WindowedRope::kSame || *windowed_dims == 0) return {};
  return read_windowed_rope(read, traits, *windowed_dims, params);
}

// Reads the xIELU parameters. Each key contains one number per layer, and the keys do not start with the architecture's
// name.
Status read_xielu(const GgufFile& file, HyperParams& params) {
  if (params.activation != Activation::kXielu) return {};
  const MetadataReader read(file, "xielu");
  const auto positive = read.numbers("alpha_p", params.n_layers, -1e3, 1e3);
  const auto negative = read.numbers("alpha_n", params.n_layers, -1e3, 1e3);
  const auto linear = read.numbers("beta", params.n_layers, -1e3, 1e3);
  const auto least = read.numbers("eps", params.n_layers, -1e3, 1e3);
  for (const auto* value : {&positive, &negative, &linear, &least})
    if (!*value) return value->error();
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  for (size_t i = 0; i < params.layers.size(); ++i)
    params.layers[i].xielu = {.positive = static_cast<float>(softplus((*positive)[i])),
                              .negative = static_cast<float>((*linear)[i] + softplus((*negative)[i])),
                              .linear = static_cast<float>((*linear)[i]),
                              .least = static_cast<float>((*least)[i])};
  return {};
}

// Reads the attention temperature settings, which scale up queries at later positions.
Status read_temperature(const MetadataReader& read, const ArchitectureTraits& traits, HyperParams& params) {
  constexpr std::string_view kScale = "attention.temperature_scale", kLength = "attention.temperature_length";
  if (traits.windows == Windows::kChunks) {  // Llama 4 files do not specify the temperature.
    for (LayerParams& layer : params.layers) {
      if (layer.rope >= 0) continue;
      layer.temperature_scale = 0.1f;
      layer.temperature_length = traits.default_window;
      layer.temperature_offset = 1;
    }
    return {};
  }
  if (!traits.temperature_keys) return {};
  auto scale = read.number(kScale, 0, 1e3, 0.0);
  if (!scale) return scale.error();
  if (*scale == 0) return {};
  constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
  const bool stated = read.has(kLength) || (traits.latents && !read.has(kOriginal));
  auto length = read.integer(stated ? kLength : kOriginal, 1, INT32_MAX,
                             traits.latents ? std::nullopt : std::optional<int64_t>(params.context_length));
  if (!length) return length.error();
  for (LayerParams& layer : params.layers) {
    layer.temperature_scale = static_cast<float>(*scale);
    layer.temperature_length = *length;
  }
  return {};
}

// Determines which layers are MoE layers: the layer that the file specifies as the first one, and every n-th layer
// after it.
Status read_mixture_layers(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                           HyperParams& params) {
  // MTP layers are MoE layers if they have a router.
  for (size_t i = static_cast<size_t>(params.n_layers); i < params.layers.size(); ++i)
    if (file.tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight") != nullptr)
      params.layers[i].feed_forward = FeedForwardKind::kMixture;
  if (traits.experts == Experts::kWhereCarried || traits.experts == Experts::kBesideNetwork) {
    const bool beside = traits.experts == Experts::kBesideNetwork;
    bool any = false;
    for (int i = 0; i < params.n_layers; ++i) {
      if (file.tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight") == nullptr) continue;
      params.layers[static_cast<size_t>(i)].feed_forward =
          beside ? FeedForwardKind::kGatedAndMixture : FeedForwardKind::kMixture;
      any = true;
    }
    if (any) return {};
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("expert_count") + "' is not 0, but no layer has a tensor 'ffn_gate_inp.weight'"};
  }
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
    if (!mixture) continue;
    params.layers[static_cast<size_t>(i)].feed_forward =
        traits.experts == Experts::kBesideLayer ? FeedForwardKind::kGatedBesideMixture : FeedForwardKind::kMixture;
    any = true;
  }
  if (any) return {};
  return Error{ErrorCode::kInvalidFile, "'" + read.key("interleave_moe_layer_step") + "' and '" +
                                            read.key("leading_dense_block_count") + "' leave no layer for experts"};
}

// Returns the width of the shared expert. The shape of its tensors takes precedence over the key: in files from
// different converters, the key may be the width of one shared expert or of all shared experts together.
Result<int> read_counted_experts(const GgufFile& file, const MetadataReader& read, const std::string& block, int n_ff) {
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

// Reads the sizes of GroveMoE's second mixture.
Status read_chunks(const MetadataReader& read, const HyperParams& params, ExpertParams& experts) {
  constexpr std::string_view kEach = "experts_per_group";
  auto each = read.integer(kEach, 2, experts.count);
  if (!each) return each.error();
  // The second mixture selects experts separately, which is not supported together with routing by token ID or with
  // expert groups.
  if (Status s = read.refuse_unless("hash_layer_count", 0, "routing by token ID with chunk experts"); !s) return s;
  if (experts.router.groups > 1) {
    if (Status s = read.refuse_unless("expert_group_count", 1, "group-limited routing with chunk experts"); !s)
      return s;
  }
  if (experts.count % *each != 0) return not_a_multiple(read, "expert_count", experts.count, kEach, *each);
  auto n_ff = read.integer("expert_chunk_feed_forward_length", 1, kMaxFeedForward, params.most(&LayerParams::key_dim));
  if (!n_ff) return n_ff.error();
  auto scale = read.number("expert_group_scale", 0, 1e6);
  if (!scale) return scale.error();
  experts.experts_per_chunk = *each;
  experts.n_ff_chunk = *n_ff;
  experts.chunk_scale = static_cast<float>(*scale);
  return {};
}

Status read_router(const MetadataReader& read, const ArchitectureTraits& traits, ExpertParams& experts) {
  constexpr int kNotStated = 0, kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3, kRootSoftplus = 4;
  constexpr int kMaxGroups = 64;
  Router& router = experts.router;
  router.score = traits.router;
  // Early GLM 4.7 Flash files omit the scoring function. In this family, only models with sigmoid scores have a
  // selection bias.
  if (traits.latents && experts.choice_bias) router.score = RouterScore::kSigmoid;
  auto score = read.integer("expert_gating_func", 0, 255, kNotStated);
  if (!score) return score.error();
  if (*score == kSoftmax || *score == kSoftmaxOfChosen) {
    router.score = RouterScore::kSoftmax;
    // A softmax over the logits of the selected experts equals a softmax over all experts that is renormalized over the
    // selected experts.
    if (*score == kSoftmaxOfChosen) {
      router.normalized = true;
      experts.choice_bias = false;
    }
  } else if (*score == kSigmoid) {
    router.score = RouterScore::kSigmoid;
  } else if (*score == kRootSoftplus) {
    router.score = RouterScore::kRootSoftplus;
  } else if (*score != kNotStated) {
    return read.refuse_unless("expert_gating_func", kSoftmax, "this router scoring function");
  }
  auto groups = read.integer("expert_group_count", 0, kMaxGroups, 0);
  if (!groups) return groups.error();
  if (*groups <= 1) return {};
  auto groups_used = read.integer("expert_group_used_count", 1, *groups);
  if (!groups_used) return groups_used.error();
  const int size = experts.count / *groups;
  if (experts.count % *groups != 0 || size < 2 || size * *groups_used < experts.used) {
    return Error{ErrorCode::kInvalidFile, "'" + read.key("expert_group_count") + "' is " + std::to_string(*groups) +
                                              " and '" + read.key("expert_group_used_count") + "' is " +
                                              std::to_string(*groups_used) + ", which " +
                                              std::to_string(experts.count) + " experts with " +
                                              std::to_string(experts.used) + " used per token do not allow"};
  }
  if (*groups_used == *groups) return {};
  router.groups = *groups;
  router.groups_used = *groups_used;
  return {};
}

}  // namespace

Status read_layers(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits, int max_context,
                   HyperParams& params) {
  params.layers.assign(static_cast<size_t>(params.n_layers + (params.draft.used ? params.draft.n_levels : 0)), {});
  if (Status s = read_windows(read, traits, params); !s) return s;
  if (Status s = read_shapes(file, read, traits, params); !s) return s;
  if (traits.block_attention) return read_block_attention(file, read, traits, max_context, params);
  if (Status s = read_latents(file, read, traits, params); !s) return s;
  if (Status s = read_shared_kv(read, traits, params); !s) return s;
  if (Status s = read_ropes(file, read, traits, max_context, params); !s) return s;
  if (traits.rope_switch) {
    auto rotates = read.boolean("rope.scaling.finetuned", true);
    if (!rotates) return rotates.error();
    if (!*rotates) {
      for (LayerParams& layer : params.layers) layer.rope = -1;
    }
  }
  if (traits.rotates_windows_only) {
    const auto windowed = [](const LayerParams& layer) { return layer.window > 0; };
    // Like llama.cpp, applies RoPE to all layers of a SmallThinker model whose layers form only one period. Published
    // models have more layers.
    const bool one_period = traits.early_router && params.n_layers == traits.window_period;
    const bool any = !one_period && std::ranges::any_of(params.layers, windowed);
    auto lead = read.integer("leading_dense_block_count", 0, params.n_layers - 1, 0);
    if (!lead) return lead.error();
    for (int i = traits.dense_layers_rotate ? *lead : 0; i < static_cast<int>(params.layers.size()); ++i) {
      LayerParams& layer = params.layers[static_cast<size_t>(i)];
      if (any && !windowed(layer)) layer.rope = -1;
    }
  }
  if (Status s = read_temperature(read, traits, params); !s) return s;
  for (LayerParams& layer : params.layers) {  // Disables settings that have no effect within max_context positions.
    if (max_context == 0) break;
    if (layer.window >= max_context) layer.chunked = false;
    if (layer.temperature_length >= max_context + layer.temperature_offset) layer.temperature_scale = 0;
  }
  for (int i = 0; i < params.n_layers && traits.unrotated_period > 0; ++i) {
    if ((i + 1) % traits.unrotated_period == 0) params.layers[static_cast<size_t>(i)].rope = -1;
  }
  return read_xielu(file, params);
}

Status read_experts(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                    HyperParams& params) {
  if (traits.experts == Experts::kNone) {
    if (Status one = read.refuse_unless("expert_count", 1, "mixture of experts (MoE)"); traits.one_expert && one)
      return {};
    return read.refuse_unless("expert_count", 0, "mixture of experts (MoE)");
  }
  const bool required = traits.experts == Experts::kRequired || traits.experts == Experts::kBesideLayer ||
                        traits.experts == Experts::kWhereCarried;
  auto count =
      required ? read.integer("expert_count", 1, kMaxExperts) : read.integer("expert_count", 0, kMaxExperts, 0);
  if (!count) return count.error();
  if (*count == 0 || (traits.one_expert && *count == 1)) return {};
  if (Status s = read_mixture_layers(file, read, traits, params); !s) return s;
  const auto first = std::ranges::find_if(params.layers, &LayerParams::has_experts);
  const int dense_ff = params.most(&LayerParams::n_ff);
  const std::string block = "blk." + std::to_string(first - params.layers.begin()) + ".";
  ExpertParams& experts = params.experts;
  experts.count = *count;
  // Older files may lack the key; in that case, the tensor's shape determines the width.
  const GgufTensor* gate = file.tensor(block + "ffn_gate_exps.weight");
  const int64_t held = gate != nullptr && gate->shape[1] <= kMaxFeedForward ? gate->shape[1] : dense_ff;
  auto used = read.integer("expert_used_count", 1, *count);
  if (!used) return used.error();
  auto n_ff =
      read.integer(traits.experts == Experts::kBesideLayer ? "feed_forward_length" : "expert_feed_forward_length", 1,
                   kMaxFeedForward, held);
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
  auto shared =
      traits.shared_expert == SharedExpert::kCounted
          ? read_counted_experts(file, read, block, *n_ff)
          : read.integer("expert_shared_feed_forward_length", gated ? 1 : 0, kMaxFeedForward, gated ? dense_ff : 0);
  if (!shared) return shared.error();
  experts.used = *used;
  experts.n_ff = *n_ff;
  experts.choice_bias_name = traits.choice_bias_name;
  for (size_t i = 0; i < params.layers.size() && !experts.choice_bias; ++i)
    experts.choice_bias =
        file.tensor("blk." + std::to_string(i) + "." + std::string(traits.choice_bias_name)) != nullptr;
  for (size_t i = 0; i < params.layers.size() && !experts.scales; ++i)
    experts.scales = file.tensor("blk." + std::to_string(i) + ".ffn_down_exps.scale") != nullptr;
  if (traits.latent_experts) {
    auto latent = read.integer("moe_latent_size", 0, kMaxFeedForward, 0);
    if (!latent) return latent.error();
    experts.latent = *latent;
  }
  experts.biases = traits.expert_biases;
  experts.gateless = traits.gateless;
  experts.early_router = traits.early_router;
  experts.apply_router_weight_on_input = traits.apply_router_weight_on_input;
  if (*count == traits.unnormed_experts) params.qk_norm = QkNorm::kNone;
  experts.fused_gate_up = file.tensor(block + "ffn_gate_up_exps.weight") != nullptr;
  auto by_token = read.integer("hash_layer_count", 0, params.n_layers, 0);
  if (!by_token) return by_token.error();
  for (int i = 0; i < *by_token; ++i) params.layers[static_cast<size_t>(i)].experts_by_token = true;
  experts.router.normalized = *normalized;
  experts.router.scale = *scale > 0 ? static_cast<float>(*scale) : 1.0f;
  if (Status s = read_router(read, traits, experts); !s) return s;
  if (traits.chunk_experts) {
    if (Status s = read_chunks(read, params, experts); !s) return s;
  }
  experts.n_ff_shared = *shared;
  experts.shared_gate = gated;
  if (traits.averages_shared_expert && *shared > 0) {
    experts.router.scale *= 0.5f;
    experts.shared_scale = 0.5f;
  }
  for (const auto& [what, value] :
       {experts.latent > 0 ? std::pair{"'" + read.key("moe_latent_size") + "'", experts.latent}
                           : std::pair{"'" + read.key("embedding_length") + "'", params.n_embd},
        std::pair{std::string("the experts' feed-forward length"), *n_ff},
        std::pair{"'" + read.key("expert_chunk_feed_forward_length") + "'", experts.n_ff_chunk}}) {
    if (value % kExpertRowMultiple == 0) continue;
    return Error{ErrorCode::kUnsupported, what + " is " + std::to_string(value) +
                                              ", but MoE layers require a multiple of " +
                                              std::to_string(kExpertRowMultiple)};
  }
  return {};
}

namespace {

// Reads activation_sparsity_scale. Gemma 3n files may omit the key; by default, the first ten layers drop 95% of their
// gate values.
Status read_sparsity(const MetadataReader& read, HyperParams& params) {
  constexpr std::string_view kKey = "activation_sparsity_scale";
  constexpr int kSparseLayers = 10;
  constexpr float kDeviations = 1.6448533535003662f;  // The 95th percentile of the standard normal distribution.
  const int n = params.n_layers;
  if (!read.has(kKey)) {
    for (int i = 0; i < std::min(n, kSparseLayers); ++i)
      params.layers[static_cast<size_t>(i)].sparse_deviations = kDeviations;
    return {};
  }
  // A value of minus infinity means that all gate values are kept.
  auto scales = read.numbers(kKey, n, -std::numeric_limits<double>::infinity(), 1e6);
  if (!scales) return scales.error();
  for (int i = 0; i < n; ++i)
    params.layers[static_cast<size_t>(i)].sparse_deviations =
        std::max(0.0f, static_cast<float>((*scales)[static_cast<size_t>(i)]));
  return {};
}

}  // namespace

Status read_layer_extras(const GgufFile& file, const MetadataReader& read, const ArchitectureTraits& traits,
                         HyperParams& params) {
  constexpr int kMaxPerLayer = 1 << 14, kMaxStreams = 16;
  const auto n = static_cast<int>(params.layers.size());
  params.limits_input = traits.limits_input;
  if (traits.limit_keys) {
    // If the same limit applies to the experts and to the shared expert or dense network, model files set only the
    // first key.
    const bool both = traits.limits_input && !read.has("swiglu_clamp_shexp");
    for (const auto& [key, field] : {std::pair{"swiglu_clamp_exp", &LayerParams::expert_limit},
                                     std::pair{"swiglu_clamp_shexp", &LayerParams::gate_limit}}) {
      auto limits = read.numbers(both ? "swiglu_clamp_exp" : key, n, 0, 1e6, 0.0);
      if (!limits) return limits.error();
      for (int i = 0; i < n; ++i)
        params.layers[static_cast<size_t>(i)].*field = static_cast<float>((*limits)[static_cast<size_t>(i)]);
    }
  }
  for (int i = 0; i < n; ++i) {
    const GgufTensor* scale = file.tensor("blk." + std::to_string(i) + ".layer_output_scale.weight");
    if (scale == nullptr || !traits.per_layer_inputs) continue;
    if (traits_of(scale->type).block_values != 1 || scale->n_values() != 1)
      return Error{ErrorCode::kInvalidFile,
                   "tensor '" + std::string(scale->name) + "' must be a single number in F32, F16 or BF16"};
    std::vector<std::byte> scratch;
    dequantize(scale->type, file.read(*scale, 0, scale->bytes(), scratch).data(), 1,
               &params.layers[static_cast<size_t>(i)].output_scale);
  }
  if (!traits.per_layer_inputs) return {};
  const GgufTensor* table = file.tensor("per_layer_token_embd.weight");
  const int64_t held = table != nullptr ? std::min<int64_t>(table->shape[0] / n, kMaxPerLayer) : 0;
  auto dim = read.integer("embedding_length_per_layer_input", 0, kMaxPerLayer, held);
  if (!dim) return dim.error();
  params.per_layer.dim = *dim;
  if (!traits.streams) return {};
  constexpr int kUsualStreams = 4;
  auto streams = read.integer("altup.num_inputs", 2, kMaxStreams, kUsualStreams);
  if (!streams) return streams.error();
  params.streams.count = *streams;
  const GgufTensor* laurel = file.tensor("blk.0.laurel_l.weight");
  params.streams.laurel_rank =
      laurel != nullptr ? static_cast<int>(std::min<int64_t>(laurel->shape[1], kMaxFeedForward)) : 1;
  if (params.per_layer.dim == 0)
    return Error{ErrorCode::kUnsupported, "'" + read.key("embedding_length_per_layer_input") +
                                              "' is 0, which is not supported with several residual streams"};
  return read_sparsity(read, params);
}

}  // namespace monolith
