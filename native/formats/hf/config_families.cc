// Translates settings that only some architectures have.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "formats/gguf/parser.h"
#include "formats/hf/translation.h"

namespace monolith::hf {
namespace {

// Gemma 4: layers without a sliding window have a different head size. The last layers reuse the keys and values of
// earlier layers, and the feed-forward networks of the last layers may be twice as wide.
int64_t translate_gemma4(Translation& t, const Config& config, int64_t head_dim) {
  constexpr int64_t kUsualGlobalHead = 512;
  const int64_t global_head_dim = t.integer("global_head_dim", kUsualGlobalHead);
  AssembledFile& out = t.out();
  const auto size = [&](std::string_view name, int64_t value) {
    out.integer(t.key(name), static_cast<uint64_t>(value));
  };
  // A config.json without this setting has no cap, but GGUF readers assume a default cap if the key is missing. Writing
  // 0 disables the cap.
  if (constexpr std::string_view kCap = "final_logit_softcapping"; !t.find(kCap).exists()) out.number(t.key(kCap), 0.0);
  size("attention.key_length", global_head_dim);
  size("attention.value_length", global_head_dim);
  size("attention.key_length_swa", head_dim);
  size("attention.value_length_swa", head_dim);
  size("rope.dimension_count_swa", head_dim);
  const int64_t shared = t.integer("num_kv_shared_layers", 0);
  size("attention.shared_kv_layers", shared);
  size("embedding_length_per_layer_input", t.integer("hidden_size_per_layer_input", 0));
  const auto layers = static_cast<size_t>(config.layers);
  const int64_t global_heads =
      t.boolean("attention_k_eq_v", false) ? t.integer("num_global_key_value_heads", config.kv_heads) : config.kv_heads;
  if (global_heads != config.kv_heads && global_heads <= kMax) {
    auto windowed = windowed_layers(t, layers);
    std::vector<int32_t> heads(layers);
    for (size_t i = 0; i < layers; ++i)
      heads[i] = static_cast<int32_t>((windowed ? (*windowed)[i] : (i + 1) % 6 != 0) ? config.kv_heads : global_heads);
    out.integers(t.key("attention.head_count_kv"), heads);
  }
  if (t.boolean("use_double_wide_mlp", false)) {
    const int64_t n_ff = t.needed({"intermediate_size"});
    if (n_ff > kMax / 2) return global_head_dim;
    std::vector<int32_t> widths(layers, static_cast<int32_t>(n_ff));
    for (size_t i = layers - std::min(layers, static_cast<size_t>(shared)); i < layers; ++i) widths[i] *= 2;
    out.integers(t.key("feed_forward_length"), widths);
  }
  if (t.find("use_bidirectional_attention").text() == "all")
    t.fail(t.find("use_bidirectional_attention").unsupported("is 'all', which is not supported"));
  return global_head_dim;
}

// Kimi Linear: layers that are not in this list (in which layer numbers start at 1) are delta-net layers with the same
// number of heads.
void put_kimi_layers(Translation& t, const Config& config) {
  const JsonValue net = t.find("linear_attn_config"), list = net["full_attn_layers"];
  std::vector<int32_t> kv_heads(static_cast<size_t>(config.layers));
  for (size_t i = 0; i < list.items().size(); ++i) {
    const auto layer = static_cast<size_t>(t.take(list.item(i).integer(1, kMaxLayers), int64_t{1}));
    if (layer > kv_heads.size()) return t.fail(list.item(i).invalid("is not a layer"));
    kv_heads[layer - 1] = 1;
  }
  t.out().integers(t.key("attention.head_count_kv"), kv_heads);
  for (const auto& [from, to] :
       {std::pair{"short_conv_kernel_size", "ssm.conv_kernel"}, std::pair{"head_dim", "kda.head_dim"}}) {
    if (!net[from].exists()) t.fail(net[from].invalid("is missing"));
    t.out().integer(t.key(to), static_cast<uint64_t>(t.take(net[from].integer(1, kMaxHeads), int64_t{1})));
  }
  if (t.take(net["num_heads"].integer(1, kMax), config.heads) != config.heads)
    t.fail(net["num_heads"].unsupported("differs from 'num_attention_heads', which is not supported"));
}

// DeepSeek V3.2: settings of the sparse-attention indexer.
void put_index(Translation& t, const Config& config) {
  t.out().integer(t.key("attention.indexer.head_count"), static_cast<uint64_t>(t.needed({"index_n_heads"})));
  t.out().integer(t.key("attention.indexer.key_length"), static_cast<uint64_t>(t.needed({"index_head_dim"})));
  t.out().integer(t.key("attention.indexer.top_k"), static_cast<uint64_t>(t.needed({"index_topk"})));
  const JsonValue types = t.find("indexer_types");
  if (!types.exists()) return;
  if (static_cast<int64_t>(types.items().size()) < config.layers)
    return t.fail(types.invalid("does not have one name per layer"));
  std::vector<int32_t> own(static_cast<size_t>(config.layers));
  for (size_t i = 0; i < own.size(); ++i) own[i] = types.item(i).text() == "full" ? 1 : 0;
  t.out().integers(t.key("attention.indexer.types"), own);
}

// MLA as in DeepSeek V2 and its successors. The main GGUF keys describe the cached data as one head (latent plus RoPE
// part); separate keys contain the actual head sizes.
int64_t translate_latents(Translation& t, Config& config) {
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  const int64_t rank = t.needed({"kv_lora_rank"}), turning = t.needed({"qk_rope_head_dim"});
  config.latents = {.key_dim = t.needed({"qk_nope_head_dim"}, kMaxHeads),
                    .value_dim = t.needed({"v_head_dim"}, kMaxHeads)};
  if (t.architecture().gguf == "kimi-linear") put_kimi_layers(t, config);
  size("attention.head_count_kv", 1);
  size("attention.kv_lora_rank", rank);
  t.copy_integer("q_lora_rank", "attention.q_lora_rank");
  size("attention.key_length", rank + turning);
  size("attention.value_length", rank);
  size("attention.key_length_mla", config.latents.key_dim + turning);
  size("attention.value_length_mla", config.latents.value_dim);
  size("rope.dimension_count", turning);
  if (t.find("index_topk").exists()) put_index(t, config);
  const JsonValue rope = t.first_of({"rope_parameters", "rope_scaling"});
  if (const JsonValue beta = rope["llama_4_scaling_beta"]; beta.exists()) {
    t.out().number(t.key("attention.temperature_scale"), t.take(beta.number(), 0.0));
    size("attention.temperature_length", t.take(rope["original_max_position_embeddings"].integer(1, kMax), int64_t{1}));
  }
  if (!t.boolean("rope_interleave", true))
    t.fail(t.find("rope_interleave").unsupported("is false: only RoPE on adjacent pairs is supported"));
  if (const JsonValue method = t.find("topk_method");
      method.text() == "group_limited_greedy" && t.integer("n_group", 1) > 1)
    t.fail(method.unsupported("is 'group_limited_greedy', which is not supported (known: greedy, noaux_tc)"));
  if (t.integer("moe_layer_freq", 1) != 1)
    t.fail(t.find("moe_layer_freq").unsupported("is not 1: dense layers after the leading ones are not supported"));
  return config.latents.key_dim + turning;
}

// Returns a setting that is either a single number or a list with the same number for every layer.
int64_t same_of_all_layers(Translation& t, std::string_view name) {
  const JsonValue value = t.find(name);
  if (!value.is_array()) return t.needed({name});
  int64_t first = 1;
  for (size_t i = 0; i < value.items().size(); ++i) {
    const int64_t number = t.take(value.item(i).integer(0, kMax), int64_t{1});
    if (i > 0 && number != first)
      t.fail(value.item(i).unsupported("differs from the first layer, which is not supported"));
    if (i == 0) first = number;
  }
  return first;
}

// Gemma 3n: several residual streams, a separate input for each layer, and sparse activations in the first layers.
void translate_gemma3n(Translation& t, Config& config) {
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  size("feed_forward_length", same_of_all_layers(t, "intermediate_size"));
  size("embedding_length_per_layer_input", t.needed({"hidden_size_per_layer_input"}));
  config.streams = t.needed({"altup_num_inputs"}, kMaxHeads);
  size("altup.num_inputs", config.streams);
  if (t.integer("altup_active_idx", 0) != 0) t.fail(t.find("altup_active_idx").unsupported("is not 0"));
  size("attention.shared_kv_layers", t.integer("num_kv_shared_layers", 0));
  config.table_rows = t.integer("vocab_size_per_layer_input", 0);
  // GGUF metadata has no key for the activation sparsity. For this architecture, the engine always assumes that each of
  // the first ten layers drops 95% of its activations, so a config.json with any other pattern is rejected.
  const JsonValue sparse = t.find("activation_sparsity_pattern");
  auto shares = sparse.numbers();
  if (!shares) return t.fail(shares.error());
  for (size_t i = 0; i < shares->size(); ++i)
    if ((*shares)[i] != (i < 10 ? 0.95f : 0.0f))
      return t.fail(
          sparse.item(i).unsupported("differs from the published models: 0.95 for the first ten layers, then 0"));
}

// Step 3.5: layers with a sliding window have more heads and apply RoPE to the whole head.
void translate_step35(Translation& t, const Config& config, int64_t head_dim) {
  const JsonValue types = t.find("layer_types"), shares = t.find("partial_rotary_factors"),
                  bases = t.find("rope_theta");
  const JsonValue other = t.find("attention_other_setting");
  if (static_cast<int64_t>(types.items().size()) < config.layers)
    return t.fail(types.invalid("does not have one name per layer"));
  const auto layers = static_cast<size_t>(config.layers + config.mtp_layers);  // The lists may omit the MTP layers.
  const auto own = [&](std::string_view name, int64_t usual) {
    return static_cast<int32_t>(std::min<int64_t>(t.take(other[name].integer(1, kMaxHeads), usual), kMaxHeads));
  };
  const int32_t heads = own("num_attention_heads", config.heads),
                kv_heads = own("num_attention_groups", config.kv_heads);
  std::vector<bool> windowed;
  std::vector<int32_t> all_heads, all_kv_heads;
  // Index 0: layers without a sliding window; index 1: layers with one.
  double share[2] = {0.5, 1}, base[2] = {1e4, 1e4};
  for (size_t i = 0; i < layers; ++i) {
    windowed.push_back(types.item(i).text() == "sliding_attention");
    all_heads.push_back(windowed[i] ? heads : static_cast<int32_t>(std::min(config.heads, kMaxHeads)));
    all_kv_heads.push_back(windowed[i] ? kv_heads : static_cast<int32_t>(std::min(config.kv_heads, kMaxHeads)));
    const size_t kind = windowed[i] ? 1 : 0;
    if (i < shares.items().size()) share[kind] = t.take(shares.item(i).number(), share[kind]);
    if (i < bases.items().size()) base[kind] = t.take(bases.item(i).number(), base[kind]);
  }
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  t.out().integers(t.key("attention.head_count"), all_heads);
  t.out().integers(t.key("attention.head_count_kv"), all_kv_heads);
  t.out().booleans(t.key("attention.sliding_window_pattern"), windowed);
  size("attention.sliding_window", t.needed({"sliding_window"}));
  if (!(share[0] > 0 && share[0] <= 0.5 && share[1] > 0 && share[1] <= 1))
    return t.fail(shares.unsupported("must be at most 0.5 for layers without a sliding window"));
  // GGUF stores twice the number of dimensions that rotate in layers without a sliding window.
  size("rope.dimension_count", static_cast<int64_t>(2 * share[0] * static_cast<double>(head_dim)));
  size("rope.dimension_count_swa", static_cast<int64_t>(share[1] * static_cast<double>(head_dim)));
  if (bases.is_array()) {
    t.out().number(t.key("rope.freq_base"), base[0]);
    t.out().number(t.key("rope.freq_base_swa"), base[1]);
  }
  size("expert_used_count", t.needed({"moe_top_k"}));
  t.copy_integer("share_expert_dim", "expert_shared_feed_forward_length");
  t.copy_number("moe_router_scaling_factor", "expert_weights_scale");
  if (t.find("norm_expert_weight").exists())
    t.out().boolean(t.key("expert_weights_norm"), t.boolean("norm_expert_weight", true));
  if (const std::string_view listed = t.find("moe_layers_enum").text(); !listed.empty()) {
    int64_t first = 0;
    std::from_chars(listed.data(), listed.data() + listed.size(), first);
    size("leading_dense_block_count", std::clamp<int64_t>(first, 0, kMaxLayers));
  }
  for (const auto& [from, to] :
       {std::pair{"swiglu_limits", "swiglu_clamp_exp"}, std::pair{"swiglu_limits_shared", "swiglu_clamp_shexp"}}) {
    const JsonValue list = t.find(from);
    if (!list.exists()) continue;
    std::vector<float> limits(layers);
    for (size_t i = 0; i < std::min(layers, list.items().size()); ++i)
      limits[i] = static_cast<float>(t.take(list.item(i).number(), 0.0));
    t.out().numbers(t.key(to), limits);
  }
}

// Translates the settings of all architectures that belong to no family.
void translate_plain(Translation& t, Config& config) {
  const std::string_view gguf = t.architecture().gguf;
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  if (gguf == "mistral3") {
    const JsonValue rope = t.first_of({"rope_parameters", "rope_scaling"});
    if (const JsonValue beta = rope["llama_4_scaling_beta"]; beta.exists())
      t.out().number(t.key("attention.temperature_scale"), t.take(beta.number(), 0.0));
  } else if (gguf == "gemma3n") {
    translate_gemma3n(t, config);
  } else if (gguf == "minimax-m2") {  // All feed-forward networks are MoE.
    t.copy_integer("intermediate_size", "expert_feed_forward_length");
    t.copy_integer("rotary_dim", "rope.dimension_count");
    if (!t.boolean("use_qk_norm", true)) t.fail(t.find("use_qk_norm").unsupported("is false, which is not supported"));
    if (const JsonValue kind = t.find("qk_norm_type"); kind.exists() && kind.text() != "per_layer")
      t.fail(kind.unsupported("is " + in_quotes(kind.text()) + ", expected 'per_layer'"));
  } else if (gguf == "hunyuan-moe") {
    size("expert_used_count", same_of_all_layers(t, "moe_topk"));
    size("expert_feed_forward_length", same_of_all_layers(t, "moe_intermediate_size"));
    size("expert_shared_feed_forward_length",
         t.needed({"intermediate_size"}) * same_of_all_layers(t, "num_shared_expert"));
    if (!t.boolean("use_qk_norm", true)) t.fail(t.find("use_qk_norm").unsupported("is false, which is not supported"));
  } else if (gguf.starts_with("qwen3vl")) {  // Number of text layers that receive deepstack image features.
    if (const JsonValue taken = t.find("vision_config")["deepstack_visual_indexes"]; taken.is_array())
      size("n_deepstack_layers", static_cast<int64_t>(taken.items().size()));
  } else if (gguf == "command-r" || gguf == "cohere2") {
    t.copy_number("logit_scale", "logit_scale");
    t.copy_integer("model_max_length", "context_length");
    if (t.number("rotary_pct", 1) != 1) t.fail(t.find("rotary_pct").unsupported("is not 1"));
  }
}

// Llama 4: transposed expert matrices, chunked attention instead of a sliding window, and every fourth layer without
// RoPE.
void translate_llama4(Translation& t, const Config& config) {
  t.copy_integer("intermediate_size_mlp", "feed_forward_length");
  t.copy_integer("intermediate_size", "expert_feed_forward_length");
  t.copy_integer("interleave_moe_layer_step", "interleave_moe_layer_step");
  const auto expect = [&](std::string_view name, double usual) {
    if (t.number(name, usual) != usual)
      t.fail(t.find(name).unsupported("is not " + std::to_string(usual) + ", the only supported value"));
  };
  expect("attention_chunk_size", 8192);
  expect("floor_scale", 8192);
  expect("attn_scale", 0.1);
  if (const JsonValue tuned = t.find("attn_temperature_tuning"); tuned.is(json::Document::Kind::kFalse))
    t.fail(tuned.unsupported("is false, which is not supported"));
  constexpr int64_t kUnnormed = 128;  // Llama 4 Maverick, which has this number of experts, has no QK norm.
  const bool normed = t.integer("num_local_experts", 0) != kUnnormed;
  if (t.boolean("use_qk_norm", normed) != normed)
    t.fail(t.find("use_qk_norm").unsupported("contradicts the setting that GGUF implies for this number of experts"));
  const JsonValue rotates = t.find("no_rope_layers"), types = t.find("layer_types");
  for (size_t i = 0; i < static_cast<size_t>(config.layers); ++i) {
    const bool turns = (i + 1) % 4 != 0;
    if (i < rotates.items().size() && (t.take(rotates.item(i).integer(0, 1), int64_t{0}) == 1) != turns)
      return t.fail(rotates.item(i).unsupported("breaks the pattern of three layers with RoPE and one without"));
    if (i < types.items().size() && types.item(i).text() != (turns ? "chunked_attention" : "full_attention"))
      return t.fail(types.item(i).unsupported(
          "breaks the pattern of three layers with chunked attention and one with full attention"));
  }
}

// MiMo V2: layers with a sliding window have a different number of KV heads and a different RoPE base, and values are
// shorter than keys.
void translate_mimo2(Translation& t, Config& config, int64_t head_dim) {
  const JsonValue pattern = t.find("hybrid_layer_pattern");
  if (static_cast<int64_t>(pattern.items().size()) != config.layers)
    return t.fail(pattern.invalid("does not have one number per layer"));
  std::vector<bool> windowed;
  std::vector<int32_t> kv_heads;
  const auto own = static_cast<int32_t>(t.needed({"swa_num_key_value_heads"}, kMaxHeads));
  for (size_t i = 0; i < pattern.items().size(); ++i) {
    windowed.push_back(t.take(pattern.item(i).integer(0, 1), int64_t{0}) == 1);
    kv_heads.push_back(windowed.back() ? own : static_cast<int32_t>(config.kv_heads));
  }
  for (int64_t i = 0; i < config.mtp_layers; ++i) {  // All MTP layers use a sliding window.
    windowed.push_back(true);
    kv_heads.push_back(own);
  }
  if (const JsonValue layout = t.find("attention_projection_layout"); layout.text() == "fused_qkv") {
    config.sharded = {config.kv_heads, std::min(head_dim, kMaxHeads),
                      std::min(t.integer("v_head_dim", head_dim), kMaxHeads), kv_heads};
    config.quantization.qkv_shards = config.kv_heads;
  } else if (layout.exists() && layout.text() != "split") {
    t.fail(layout.unsupported("is " + in_quotes(layout.text()) + " (supported: fused_qkv, split)"));
  }
  t.out().booleans(t.key("attention.sliding_window_pattern"), windowed);
  t.out().integers(t.key("attention.head_count_kv"), kv_heads);
  t.out().integer(t.key("attention.sliding_window"),
                  static_cast<uint64_t>(t.needed({"sliding_window", "sliding_window_size"})));
  t.copy_integer("v_head_dim", "attention.value_length");
  t.copy_number("swa_rope_theta", "rope.freq_base_swa");
  t.copy_number("attention_value_scale", "attention.value_scale");
  t.copy_number("layernorm_epsilon", "attention.layer_norm_rms_epsilon");
  for (const auto& [windows, all] :
       {std::pair{"swa_head_dim", "head_dim"}, std::pair{"swa_num_attention_heads", "num_attention_heads"},
        std::pair{"swa_v_head_dim", "v_head_dim"}})
    if (t.find(windows).exists() && t.integer(windows, 0) != t.integer(all, 0))
      t.fail(t.find(windows).unsupported("differs from '" + std::string(all) + "'"));
}

// Returns how many leading layers are of kind `first`. Fails unless all layers after them are of kind `other`.
int64_t leading_layers(Translation& t, std::string_view list, std::string_view first, std::string_view other) {
  const JsonValue kinds = t.find(list);
  size_t count = 0;
  while (count < kinds.items().size() && kinds.item(count).text() == first) ++count;
  for (size_t i = count; i < kinds.items().size(); ++i)
    if (kinds.item(i).text() != other)
      t.fail(
          kinds.item(i).unsupported("is not " + in_quotes(other) + ", which all layers after the first ones must be"));
  return static_cast<int64_t>(count);
}

// Returns the number of positions per compressed block for each layer; 0 for layers without blocks. Older checkpoints
// list one number per layer, possibly including the MTP layers; newer ones list one name per layer.
std::vector<int32_t> block_lengths(Translation& t, const Config& config) {
  const JsonValue ratios = t.find("compress_ratios"), list = ratios.exists() ? ratios : t.find("layer_types"),
                  rates = t.find("compress_rates");
  if (static_cast<int64_t>(list.items().size()) < config.layers) {
    t.fail(list.invalid(ratios.exists() ? "does not have one number per layer" : "does not have one name per layer"));
    return {};
  }
  std::vector<int32_t> blocks;
  for (size_t i = 0; i < static_cast<size_t>(config.layers); ++i) {
    const JsonValue one = list.item(i);
    int64_t length = 0;
    if (ratios.exists()) {
      length = t.take(one.integer(0, INT32_MAX), int64_t{0});
    } else if (one.text() == "compressed_sparse_attention" || one.text() == "heavily_compressed_attention") {
      const int64_t usual = one.text() == "compressed_sparse_attention" ? 4 : 128;
      length = t.take(rates[one.text()].integer(1, INT32_MAX), usual);
    } else if (one.text() != "sliding_attention") {
      t.fail(one.unsupported("is " + in_quotes(one.text()) + ", which is not supported"));
    }
    blocks.push_back(static_cast<int32_t>(length));
  }
  return blocks;
}

// DeepSeek V4: attention over a sliding window and over compressed blocks of earlier positions, and hyper-connections
// with several residual streams.
void translate_blocks(Translation& t, const Config& config, int64_t head_dim) {
  const auto size = [&](std::string_view name, int64_t value) {
    t.out().integer(t.key(name), static_cast<uint64_t>(value));
  };
  const double share = t.take(t.find("rope_parameters")["compress"]["partial_rotary_factor"].number(),
                              t.number("partial_rotary_factor", 0));
  const auto turning = static_cast<int64_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(head_dim));
  size("rope.dimension_count",
       turning > 0 && !t.find("qk_rope_head_dim").exists() ? turning : t.needed({"qk_rope_head_dim"}));
  size("attention.q_lora_rank", t.needed({"q_lora_rank"}));
  size("attention.sliding_window", t.needed({"sliding_window"}));
  size("attention.output_group_count", t.needed({"o_groups"}));
  size("attention.output_lora_rank", t.needed({"o_lora_rank"}));
  // Newer files have separate RoPE settings for layers with and without compressed blocks (see config_rope.cc).
  const JsonValue kinds = t.find("rope_parameters"), blocked = kinds["compress"]["rope_theta"];
  t.out().number(t.key("attention.compress_rope_freq_base"), kinds["main"].exists() && blocked.exists()
                                                                 ? t.take(blocked.number(), 1.0)
                                                                 : t.needed_number("compress_rope_theta"));
  put_index(t, config);
  size("hyper_connection.count", t.needed({"hc_mult"}));
  size("hyper_connection.sinkhorn_iterations", t.needed({"hc_sinkhorn_iters"}));
  t.out().number(t.key("hyper_connection.epsilon"), t.needed_number("hc_eps"));
  size("hash_layer_count", t.integer("num_hash_layers", leading_layers(t, "mlp_layer_types", "hash_moe", "moe")));
  const std::vector<int32_t> blocks = block_lengths(t, config);
  t.out().integers(t.key("attention.compress_ratios"), blocks);
  const std::vector<float> limits(static_cast<size_t>(config.layers),
                                  static_cast<float>(t.needed_number("swiglu_limit")));
  t.out().numbers(t.key("swiglu_clamp_exp"), limits);
  t.out().numbers(t.key("swiglu_clamp_shexp"), limits);
}

// EAGLE head: missing settings are taken from the target model, which is not known at this point. For each logit row,
// the folder's token map stores the token ID minus the row number.
void translate_eagle(Translation& t, const Config& config) {
  if (config.layers != 1)
    t.fail(t.find("num_hidden_layers").unsupported("is " + std::to_string(config.layers) + ", expected 1"));
  t.copy_integer("target_hidden_size", "target_hidden_size");
  const JsonValue own = t.find("eagle_config")["eagle_aux_hidden_state_layer_ids"];
  if (const JsonValue list = own.exists() ? own : t.find("eagle_aux_hidden_state_layer_ids"); list.exists()) {
    std::vector<int32_t> layers;
    for (size_t i = 0; i < std::min<size_t>(list.items().size(), 8); ++i)
      layers.push_back(static_cast<int32_t>(t.take(list.item(i).integer(0, kMaxLayers), int64_t{0})));
    t.out().integers(t.key("target_layers"), layers);
  }
  for (const std::string_view flag : {"norm_before_residual", "norm_before_fc"})
    if (t.find(flag).exists()) t.out().boolean(t.key(flag), t.boolean(flag, false));
  t.out().boolean(t.key("token_distances"), true);
}

}  // namespace

int64_t translate_family(Translation& t, Config& config, int64_t embedding, int64_t head_dim) {
  switch (t.architecture().family) {
    case Family::kPlain: translate_plain(t, config); break;
    case Family::kGemma4: return translate_gemma4(t, config, head_dim);
    case Family::kLatents: return translate_latents(t, config);
    case Family::kBlocks: translate_blocks(t, config, head_dim); break;
    case Family::kDeltaNet: translate_delta_nets(t, config); break;
    case Family::kLlama4: translate_llama4(t, config); break;
    case Family::kMiMo2: translate_mimo2(t, config, head_dim); break;
    case Family::kStep35: translate_step35(t, config, head_dim); break;
    case Family::kEagle: translate_eagle(t, config); break;
    default: translate_hybrid(t, config, embedding);
  }
  return head_dim;
}

}  // namespace monolith::hf
