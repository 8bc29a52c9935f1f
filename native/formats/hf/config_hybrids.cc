// Translates models in which some layers, or parts of all layers, have recurrent state: delta nets, state-space models,
// short convolutions.
#include <algorithm>
#include <cmath>

#include "formats/gguf/parser.h"
#include "formats/hf/translation.h"

namespace monolith::hf {
namespace {

enum class LayerKind : uint8_t { kOther, kAttention, kNetwork };

// Reads the kind of each layer from a string with one letter per layer or from a list of names. Layers that are neither
// attention nor feed-forward layers are recurrent and must have one of the names in `state_names`.
std::vector<LayerKind> read_kinds(Translation& t, const JsonValue& list, int64_t layers,
                                  std::initializer_list<std::string_view> state_names) {
  std::vector<LayerKind> kinds(static_cast<size_t>(layers), LayerKind::kOther);
  const std::string_view letters = list.text();
  const size_t count = letters.empty() ? list.items().size() : letters.size();
  if (count != kinds.size()) {
    t.fail(list.invalid("does not have one name for each of the " + std::to_string(layers) + " layers"));
    return kinds;
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name = letters.empty() ? list.item(i).text() : letters.substr(i, 1);
    if (name == "attention" || name == "full_attention" || name == "*")
      kinds[i] = LayerKind::kAttention;
    else if (name == "mlp" || name == "moe" || name == "-" || name == "E")
      kinds[i] = LayerKind::kNetwork;
    else if (std::ranges::find(state_names, name) == state_names.end())
      t.fail(
          (letters.empty() ? list.item(i) : list).unsupported("holds " + in_quotes(name) + ", which is not supported"));
  }
  return kinds;
}

void put_kv_heads(Translation& t, const Config& config, const std::vector<LayerKind>& kinds) {
  std::vector<int32_t> heads(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i)
    heads[i] = kinds[i] == LayerKind::kAttention ? static_cast<int32_t>(config.kv_heads) : 0;
  t.out().integers(t.key("attention.head_count_kv"), heads);
}

void put_state_space(Translation& t, const StateSpace& space, int64_t taps) {
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  size("ssm.conv_kernel", taps);
  size("ssm.inner_size", space.inner);
  size("ssm.state_size", space.state);
  size("ssm.time_step_rank", space.heads);
  size("ssm.group_count", space.groups);
}

// Nemotron H: each layer is either a state-space layer, an attention layer or a feed-forward network.
void translate_nemotron(Translation& t, Config& config) {
  const JsonValue list = t.first_of({"hybrid_override_pattern", "layers_block_type"});
  const std::vector<LayerKind> kinds = read_kinds(t, list, config.layers, {"M", "mamba", "linear_attention"});
  put_kv_heads(t, config, kinds);
  const bool experts = t.architecture().gguf == "nemotron_h_moe";
  const int64_t width = t.needed({experts ? "moe_intermediate_size" : "intermediate_size"});
  std::vector<int32_t> widths(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i)
    widths[i] = kinds[i] == LayerKind::kNetwork ? static_cast<int32_t>(std::min<int64_t>(width, INT32_MAX)) : 0;
  t.out().integers(t.key("feed_forward_length"), widths);
  const int64_t heads = t.needed({"mamba_num_heads"}, kMaxHeads);
  config.state_space = {.inner = heads * t.needed({"mamba_head_dim"}, kMaxHeads),
                        .groups = t.needed({"n_groups", "mamba_n_groups"}, kMaxHeads),
                        .state = t.needed({"ssm_state_size"}, kMaxHeads),
                        .heads = heads};
  put_state_space(t, config.state_space, t.needed({"conv_kernel", "mamba_d_conv"}));
  t.copy_integer("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  if (const JsonValue latent = t.find("moe_latent_size"); latent.exists())
    t.fail(latent.unsupported("is set: experts with another width than the model are not supported"));
}

// Granite 4: each layer is either a state-space layer or an attention layer, followed by a feed-forward network.
void translate_granite(Translation& t, Config& config, int64_t embedding) {
  // In a model without routed experts, the shared expert is the whole feed-forward network.
  if (t.integer("num_local_experts", 0) == 0)
    t.out().integer(t.key("feed_forward_length"), static_cast<uint64_t>(t.needed({"shared_intermediate_size"})));
  if (t.architecture().gguf != "granitehybrid") return;
  put_kv_heads(t, config, read_kinds(t, t.find("layer_types"), config.layers, {"mamba"}));
  config.state_space = {.inner = t.needed({"mamba_expand"}, kMaxHeads) * embedding,
                        .groups = t.needed({"mamba_n_groups"}, kMaxHeads),
                        .state = t.needed({"mamba_d_state"}, kMaxHeads),
                        .heads = t.needed({"mamba_n_heads"}, kMaxHeads)};
  put_state_space(t, config.state_space, t.needed({"mamba_d_conv"}));
  t.out().boolean(t.key("rope.scaling.finetuned"), t.find("position_embedding_type").text() == "rope");
}

std::vector<float> multipliers(Translation& t, std::string_view name, size_t count) {
  auto values = t.find(name).numbers();
  if (!values) t.fail(values.error());
  if (!values || values->empty()) return std::vector<float>(count, 1);
  if (values->size() != count) t.fail(t.find(name).invalid("must have " + std::to_string(count) + " numbers"));
  values->resize(count, 1);
  return std::move(*values);
}

void translate_falcon(Translation& t, Config& config, int64_t embedding) {
  const int64_t inner =
      t.find("mamba_d_ssm").exists() ? t.needed({"mamba_d_ssm"}) : t.needed({"mamba_expand"}, kMaxHeads) * embedding;
  config.state_space = {.inner = inner,
                        .groups = t.needed({"mamba_n_groups"}, kMaxHeads),
                        .state = t.needed({"mamba_d_state"}, kMaxHeads),
                        .heads = t.needed({"mamba_n_heads"}, kMaxHeads)};
  put_state_space(t, config.state_space, t.needed({"mamba_d_conv"}));
  if (t.boolean("mamba_rms_norm", false) && t.boolean("mamba_norm_before_gate", true))
    t.fail(t.find("mamba_norm_before_gate").unsupported("is true, which is not supported"));
  const auto factor = [&](std::string_view name) { return static_cast<float>(t.number(name, 1)); };
  const std::vector<float> network = multipliers(t, "mlp_multipliers", 2);
  config.multipliers = {.embedding = factor("embedding_multiplier"),
                        .output = factor("lm_head_multiplier"),
                        .attention_in = factor("attention_in_multiplier"),
                        .attention_out = factor("attention_out_multiplier"),
                        .key = factor("key_multiplier"),
                        .ssm_in = factor("ssm_in_multiplier"),
                        .ssm_out = factor("ssm_out_multiplier"),
                        .gate = network[0],
                        .down = network[1],
                        .ssm = multipliers(t, "ssm_multipliers", 5)};
}

// Mamba 2: all layers are state-space layers.
void translate_mamba2(Translation& t, Config& config, int64_t embedding) {
  const int64_t heads = t.needed({"num_heads"}, kMaxHeads);
  config.state_space = {.inner = t.needed({"expand"}, kMaxHeads) * embedding,
                        .groups = t.needed({"n_groups"}, kMaxHeads),
                        .state = t.needed({"state_size"}, kMaxHeads),
                        .heads = heads};
  if (heads * t.needed({"head_dim"}, kMaxHeads) != config.state_space.inner)
    t.fail(t.find("num_heads").invalid("times 'head_dim' is not 'expand' times 'hidden_size'"));
  put_state_space(t, config.state_space, t.needed({"conv_kernel"}));
  t.out().integer(t.key("feed_forward_length"), 0);
}

// LFM2: the actual width of the feed-forward network may be a fraction of the width in the settings, rounded up to a
// multiple of another setting.
void translate_short_convolutions(Translation& t, Config& config) {
  const JsonValue list = t.find("layer_types");
  std::vector<LayerKind> kinds;
  if (list.exists()) {
    kinds = read_kinds(t, list, config.layers, {"conv", "short_conv"});
  } else {
    kinds.resize(static_cast<size_t>(config.layers), LayerKind::kOther);
    const JsonValue attending = t.find("full_attn_idxs");
    for (size_t i = 0; i < attending.items().size(); ++i) {
      const auto at = static_cast<size_t>(t.take(attending.item(i).integer(0, kMaxLayers), int64_t{0}));
      if (at >= kinds.size()) return t.fail(attending.item(i).invalid("is not a layer"));
      kinds[at] = LayerKind::kAttention;
    }
  }
  put_kv_heads(t, config, kinds);
  t.out().integer(t.key("shortconv.l_cache"), static_cast<uint64_t>(t.needed({"conv_L_cache"})));
  if (t.boolean("conv_bias", false)) t.fail(t.find("conv_bias").unsupported("is true, which is not supported"));
  int64_t width = t.needed({"block_ff_dim", "intermediate_size"});
  if (t.boolean("block_auto_adjust_ff_dim", false)) {
    const int64_t multiple = t.needed({"block_multiple_of"});
    width = static_cast<int64_t>(t.number("block_ffn_dim_multiplier", 1) * static_cast<double>(2 * width / 3));
    width = (std::clamp<int64_t>(width, 1, kMax) + multiple - 1) / multiple * multiple;
  }
  t.out().integer(t.key("feed_forward_length"), static_cast<uint64_t>(width));
  t.copy_integer("num_dense_layers", "leading_dense_block_count");
}

}  // namespace

void translate_delta_nets(Translation& t, Config& config) {
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  DeltaNetHeads& heads = config.delta_net;
  heads = {.key_heads = t.needed({"linear_num_key_heads"}, kMaxHeads),
           .value_heads = t.needed({"linear_num_value_heads"}, kMaxHeads),
           .key_dim = t.needed({"linear_key_head_dim"}, kMaxHeads),
           .value_dim = t.needed({"linear_value_head_dim"}, kMaxHeads)};
  if (heads.value_heads % heads.key_heads != 0)
    t.fail(t.find("linear_num_value_heads").invalid("is not a multiple of 'linear_num_key_heads'"));
  size("ssm.conv_kernel", t.needed({"linear_conv_kernel_dim"}));
  size("ssm.state_size", heads.key_dim);
  size("ssm.group_count", heads.key_heads);
  size("ssm.time_step_rank", heads.value_heads);
  size("ssm.inner_size", heads.value_dim * heads.value_heads);
  // GGUF can express full attention only if it occurs in every n-th layer.
  constexpr int64_t kUsualInterval = 4;
  int64_t interval = t.integer("full_attention_interval", kUsualInterval);
  if (const JsonValue types = t.find("layer_types"); types.exists()) {
    const std::vector<LayerKind> kinds = read_kinds(t, types, config.layers, {"linear_attention"});
    const auto first = std::ranges::find(kinds, LayerKind::kAttention);
    interval = first - kinds.begin() + 1;
    for (size_t i = 0; i < kinds.size(); ++i)
      if ((kinds[i] == LayerKind::kAttention) != ((static_cast<int64_t>(i) + 1) % interval == 0))
        return t.fail(types.item(i).unsupported("breaks the regular interval of attention layers"));
  }
  size("full_attention_interval", interval);
  // Qwen3.5's M-RoPE sections, used if the checkpoint does not specify them.
  if (t.architecture().gguf != "qwen3next" &&
      !t.first_of({"rope_parameters", "rope_scaling"})["mrope_section"].exists())
    t.out().integers(t.key("rope.dimension_sections"), {11, 11, 10, 0});
}

void translate_hybrid(Translation& t, Config& config, int64_t embedding) {
  switch (t.architecture().family) {
    case Family::kNemotron: return translate_nemotron(t, config);
    case Family::kGraniteHybrid: return translate_granite(t, config, embedding);
    case Family::kFalconH1: return translate_falcon(t, config, embedding);
    case Family::kMamba2: return translate_mamba2(t, config, embedding);
    case Family::kShortConvolution: return translate_short_convolutions(t, config);
    default: return;
  }
}

}  // namespace monolith::hf
