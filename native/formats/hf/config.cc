#include "formats/hf/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "formats/gguf/parser.h"

namespace monolith::hf {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;   // of any size; the model checks each more closely
constexpr int64_t kMostLayers = 1024;          // as the model has it

// Looks keys up as transformers does: in the text part where a checkpoint has several, else in the whole. Remembers
// the first error, so that the translation reads as a list.
class Translation {
 public:
  Translation(const JsonValue& whole, const Architecture& architecture, AssembledFile& out)
      : whole_(whole), text_(whole["text_config"]), architecture_(architecture), out_(out) {}

  const Architecture& architecture() const { return architecture_; }
  AssembledFile& out() { return out_; }
  const Status& status() const { return status_; }
  void fail(Error error) {
    if (status_) status_ = std::move(error);
  }

  JsonValue find(std::string_view key) const {
    const JsonValue inner = text_[key];
    return inner.exists() ? inner : whole_[key];
  }
  JsonValue first_of(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys)
      if (const JsonValue value = find(key); value.exists()) return value;
    return find(*keys.begin());
  }
  std::string key(std::string_view name) const {
    return std::string(architecture_.gguf) + "." + std::string(name);
  }

  template <typename T>
  T take(Result<std::optional<T>> value, T fallback = {}) {
    if (value) return value->value_or(fallback);
    fail(value.error());
    return fallback;
  }

  // An integer that must be there.
  int64_t needed(std::initializer_list<std::string_view> keys) {
    const JsonValue value = first_of(keys);
    if (!value.exists()) fail(value.invalid("is missing"));
    return take(value.integer(1, kMost), int64_t{1});
  }
  int64_t integer(std::string_view name, int64_t fallback) { return take(find(name).integer(0, kMost), fallback); }
  double number(std::string_view name, double fallback) { return take(find(name).number(), fallback); }
  double needed_number(std::string_view name) {
    if (!find(name).exists()) fail(find(name).invalid("is missing"));
    const double value = number(name, 1);
    if (!(value > 0)) fail(find(name).invalid("is not positive"));
    return value;
  }
  bool boolean(std::string_view name, bool fallback) { return take(find(name).boolean(), fallback); }

  // Copies a number or an integer, if it is there, to a key of the architecture.
  void copy_number(std::string_view from, std::string_view to) {
    if (find(from).exists()) out_.number(key(to), number(from, 0));
  }
  void copy_integer(std::string_view from, std::string_view to) {
    if (find(from).exists()) out_.integer(key(to), static_cast<uint64_t>(integer(from, 0)));
  }

 private:
  JsonValue whole_, text_;
  const Architecture& architecture_;
  AssembledFile& out_;
  Status status_;
};

Result<const Architecture*> read_architecture(const JsonValue& config) {
  const JsonValue names = config["architectures"];
  if (!names.is_array() || names.items().empty()) return config["architectures"].invalid("is missing or empty");
  const std::string_view name = names.item(0).text();
  if (const Architecture* known = find_architecture(name)) return known;
  return names.unsupported(quoted(name) + " is not supported (known: " + known_architectures() + ")");
}

void check_activation(Translation& t) {
  const JsonValue value = t.first_of({"hidden_activation", "hidden_act", "activation_function"});
  const std::string_view name = value.text();
  if (t.architecture().activation == Activation::kSilu) {
    if (value.exists() && name != "silu" && name != "swish")
      t.fail(value.unsupported("is " + quoted(name) + ", expected 'silu'"));
  } else if (value.exists() && name != "gelu_pytorch_tanh" && name != "gelu") {
    // Gemma's first files say "gelu" and mean the approximation by tanh.
    t.fail(value.unsupported("is " + quoted(name) + ", expected 'gelu_pytorch_tanh'"));
  }
}

// Llama 3's scaling as factors of the frequencies: long waves are stretched, short ones are not, those between partly.
void add_llama3_factors(Translation& t, const JsonValue& rope, double base, int64_t dims) {
  const auto value = [&](std::string_view name, double fallback) { return t.take(rope[name].number(), fallback); };
  const double factor = value("factor", 8), low = value("low_freq_factor", 1), high = value("high_freq_factor", 4);
  const double context = value("original_max_position_embeddings", 8192);
  if (!(factor > 0 && low > 0 && high > low && context > 0 && base > 1) || dims < 2 || dims > 1 << 16)
    return t.fail(rope.invalid("holds factors that make no scaling"));
  std::vector<float> factors;
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    const double wave = 2 * std::numbers::pi / frequency;
    const double smooth = (context / wave - low) / (high - low);
    factors.push_back(wave < context / high  ? 1.0f
                      : wave > context / low ? static_cast<float>(factor)
                                             : static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  t.out().tensor("rope_freqs.weight", factors);
}

// LongRoPE: two sets of factors, and the scale of attention that goes with them.
void add_long_rope(Translation& t, const JsonValue& rope, int64_t context) {
  const int64_t original = t.take(t.first_of({"original_max_position_embeddings"}).integer(1, kMost),
                                  t.take(rope["original_max_position_embeddings"].integer(1, kMost), context));
  auto longer = rope["long_factor"].numbers(), shorter = rope["short_factor"].numbers();
  if (!longer) return t.fail(longer.error());
  if (!shorter) return t.fail(shorter.error());
  if (longer->empty() || longer->size() != shorter->size())
    return t.fail(rope.invalid("has no 'long_factor' and 'short_factor' of one length"));
  const double stretch = static_cast<double>(context) / static_cast<double>(original);
  const double magnitude = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original))) : 1;
  t.out().string(t.key("rope.scaling.type"), "longrope");
  t.out().integer(t.key("rope.scaling.original_context_length"), static_cast<uint64_t>(original));
  t.out().number(t.key("rope.scaling.attn_factor"), t.take(rope["attention_factor"].number(), magnitude));
  t.out().tensor("rope_factors_long.weight", *longer);
  t.out().tensor("rope_factors_short.weight", *shorter);
}

void add_yarn(Translation& t, const JsonValue& rope) {
  t.out().string(t.key("rope.scaling.type"), "yarn");
  t.out().number(t.key("rope.scaling.factor"), t.take(rope["factor"].number(), 1.0));
  const auto original = rope["original_max_position_embeddings"].integer(1, kMost);
  if (!original) return t.fail(original.error());
  if (*original)
    t.out().integer(t.key("rope.scaling.original_context_length"), static_cast<uint64_t>(**original));
  const auto copy = [&](std::string_view from, std::string_view to) {
    if (rope[from].exists()) t.out().number(t.key(to), t.take(rope[from].number(), 0.0));
  };
  copy("extrapolation_factor", "rope.scaling.yarn_ext_factor");
  copy("beta_fast", "rope.scaling.yarn_beta_fast");
  copy("beta_slow", "rope.scaling.yarn_beta_slow");
  // The checkpoint states the magnitude of both rotated halves, GGUF by what it differs from 0.1 ln(factor) + 1.
  const double factor = t.take(rope["factor"].number(), 1.0);
  if (rope["attention_factor"].exists() && factor > 0) {
    const double magnitude = t.take(rope["attention_factor"].number(), 1.0);
    t.out().number(t.key("rope.scaling.attn_factor"), magnitude / (0.1 * std::log(std::max(factor, 1.0)) + 1));
  }
  for (const std::string_view name : {"mscale", "mscale_all_dim"})
    if (rope[name].exists()) t.fail(rope[name].unsupported("is not computed"));
}

// The first share of a head's pairs turn, by angles of which the whole head has its own; those of the rest are divided by
// so much that they do not.
void add_proportional_rope(Translation& t, double share, int64_t head_dim) {
  constexpr float kNever = 1e30f;
  if (head_dim < 2 || head_dim > 1 << 16) return t.fail(t.find("rope_parameters").invalid("is of heads of no size"));
  t.out().integer(t.key("rope.dimension_count"), static_cast<uint64_t>(head_dim));
  std::vector<float> factors(static_cast<size_t>(head_dim / 2), kNever);
  const auto turning = static_cast<size_t>(static_cast<double>(head_dim) * share / 2);
  std::fill_n(factors.begin(), std::min(turning, factors.size()), 1.0f);
  t.out().tensor("rope_freqs.weight", factors);
}

void translate_rope(Translation& t, int64_t context, int64_t head_dim) {
  // Old files keep the base beside "rope_scaling", new ones everything in "rope_parameters", some by kind of layer.
  JsonValue rope = t.first_of({"rope_parameters", "rope_scaling"});
  const JsonValue windowed = rope["sliding_attention"];
  if (rope["full_attention"].exists()) rope = rope["full_attention"];
  if (rope.exists() && !rope.is_object()) return t.fail(rope.invalid("is no object"));
  const auto value = [&](std::string_view name, double fallback) {
    return t.take(rope[name].number(), t.number(name, fallback));
  };
  const double base = value("rope_theta", t.architecture().gguf == "gemma3" ? 1e6 : 1e4);
  t.out().number(t.key("rope.freq_base"), base);
  const double windowed_base = t.take(windowed["rope_theta"].number(), t.number("rope_local_base_freq", 0));
  if (windowed_base > 0) t.out().number(t.key("rope.freq_base_swa"), windowed_base);
  const double share = value("partial_rotary_factor", t.architecture().rotated_share);
  if (!(share > 0 && share <= 1)) return t.fail(t.find("partial_rotary_factor").invalid("is out of range"));
  const JsonValue kind_value = rope["rope_type"].exists() ? rope["rope_type"] : rope["type"];
  const std::string_view kind = kind_value.text();
  if (kind == "proportional") return add_proportional_rope(t, share, head_dim);
  const int64_t dims = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  t.out().integer(t.key("rope.dimension_count"), static_cast<uint64_t>(dims));

  // "dynamic" stretches what goes beyond the context the model was made for, which is the most that is served.
  if (kind.empty() || kind == "default" || (kind == "dynamic" && !rope["alpha"].exists())) return;
  if (kind == "linear") {
    t.out().string(t.key("rope.scaling.type"), "linear");
    t.out().number(t.key("rope.scaling.factor"), t.take(rope["factor"].number(), 1.0));
  } else if (kind == "llama3") {
    add_llama3_factors(t, rope, base, dims);
  } else if (kind == "longrope" || kind == "su") {
    add_long_rope(t, rope, context);
  } else if (kind == "yarn") {
    add_yarn(t, rope);
  } else {
    t.fail(kind_value.unsupported("is " + quoted(kind) +
                                  ", which is not computed (known: default, dynamic, linear, llama3, longrope, yarn)"));
  }
}

void translate_router(Translation& t, int64_t layers) {
  AssembledFile& out = t.out();
  if (const JsonValue lead = t.first_of({"first_k_dense_replace", "moe_layer_start_index"}); lead.exists())
    out.integer(t.key("leading_dense_block_count"), static_cast<uint64_t>(t.take(lead.integer(0, kMost), int64_t{0})));
  t.copy_integer("moe_layer_interval", "interleave_moe_layer_step");
  if (const JsonValue last = t.find("moe_layer_end_index"); last.exists()) {
    const double index = t.take(last.number(), -1.0);
    if (index != -1 && index != static_cast<double>(layers - 1))
      t.fail(last.unsupported("is not the last layer: layers without experts behind those with are not computed"));
  }
  if (t.integer("n_group", 1) > 1) {
    t.copy_integer("n_group", "expert_group_count");
    t.copy_integer("topk_group", "expert_group_used_count");
  }
  t.copy_number("routed_scaling_factor", "expert_weights_scale");
  if (const JsonValue score = t.first_of({"scoring_func", "score_function"}); score.exists()) {
    if (score.text() != "softmax" && score.text() != "sigmoid")
      t.fail(score.unsupported("is " + quoted(score.text()) + ", which is not computed (known: softmax, sigmoid)"));
    out.integer(t.key("expert_gating_func"), score.text() == "sigmoid" ? 2 : 1);
  }
}

void translate_experts(Translation& t, Config& config) {
  const JsonValue count = t.first_of({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"});
  if (t.architecture().gguf == "gemma4" && !t.boolean("enable_moe_block", false)) return;
  config.experts = t.take(count.integer(0, 4096), int64_t{0});
  if (config.experts == 0) return;
  AssembledFile& out = t.out();
  out.integer(t.key("expert_count"), static_cast<uint64_t>(config.experts));
  out.integer(t.key("expert_used_count"), static_cast<uint64_t>(t.needed({"num_experts_per_tok", "moe_k", "top_k_experts"})));
  t.copy_integer("moe_intermediate_size", "expert_feed_forward_length");
  t.copy_integer("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  t.copy_integer("shared_intermediate_size", "expert_shared_feed_forward_length");
  if (const JsonValue shared = t.first_of({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"});
      shared.exists())
    out.integer(t.key("expert_shared_count"), static_cast<uint64_t>(t.take(shared.integer(0, 4096), int64_t{0})));
  if (t.find("norm_topk_prob").exists())
    out.boolean(t.key("expert_weights_norm"), t.boolean("norm_topk_prob", true));
  translate_router(t, config.layers);
  if (t.integer("decoder_sparse_step", 1) != 1)
    t.fail(t.find("decoder_sparse_step").unsupported("is not 1: layers without experts are not computed"));
  if (!t.find("mlp_only_layers").items().empty())
    t.fail(t.find("mlp_only_layers").unsupported("is not empty: layers without experts are not computed"));
}

// Which layers have a window, where the checkpoint says so: by a list of names, a text of which each letter stands
// for a layer and which repeats, or a period. Nothing: as the architecture does it.
std::optional<std::vector<bool>> windowed_layers(Translation& t, size_t layers) {
  std::vector<bool> windowed(layers);
  if (const JsonValue types = t.find("layer_types"); types.exists()) {
    if (types.items().size() != layers) {
      t.fail(types.invalid("has not one name for each layer"));
      return windowed;
    }
    for (size_t i = 0; i < layers; ++i) {
      const std::string_view type = types.item(i).text();
      if (type != "sliding_attention" && type != "full_attention")
        t.fail(types.item(i).unsupported("is " + quoted(type) + ", which is not computed"));
      windowed[i] = type == "sliding_attention";
    }
    return windowed;
  }
  const JsonValue pattern = t.first_of({"sliding_window_pattern", "_sliding_window_pattern"});
  if (!pattern.exists()) return std::nullopt;
  if (const std::string_view letters = pattern.text(); !letters.empty()) {
    for (size_t i = 0; i < layers; ++i) windowed[i] = letters[i % letters.size()] == 'L';
    return windowed;
  }
  const auto period = static_cast<size_t>(t.take(pattern.integer(1, kMost), int64_t{1}));
  for (size_t i = 0; i < layers; ++i) windowed[i] = (i + 1) % period != 0;
  return windowed;
}

void translate_windows(Translation& t, int64_t layers) {
  const bool optional = t.architecture().gguf.starts_with("qwen");   // states a size and whether it is used
  if (optional && !t.boolean("use_sliding_window", false)) return;
  if (t.integer("sliding_window", 1) == 0 || layers > kMostLayers) return;
  const auto windowed = windowed_layers(t, static_cast<size_t>(layers));
  if (windowed) {
    const auto n = std::ranges::count(*windowed, true);
    if (n == 0) return;
    if (t.architecture().window_pattern)
      t.out().booleans(t.key("attention.sliding_window_pattern"), *windowed);
    else if (n != layers)
      t.fail(t.first_of({"layer_types", "sliding_window_pattern"}).unsupported("gives a window to some layers only"));
  }
  t.copy_integer("sliding_window", "attention.sliding_window");
}

void translate_scales(Translation& t, int64_t layers, int64_t embedding) {
  t.copy_number("attn_logit_softcapping", "attn_logit_softcapping");
  t.copy_number("final_logit_softcapping", "final_logit_softcapping");
  t.copy_number("attention_multiplier", "attention.scale");
  t.copy_number("embedding_multiplier", "embedding_scale");
  t.copy_number("residual_multiplier", "residual_scale");
  t.copy_number("logits_scaling", "logit_scale");
  if (t.architecture().gguf != "minicpm") return;
  t.out().number(t.key("embedding_scale"), t.needed_number("scale_emb"));
  t.out().number(t.key("residual_scale"), t.needed_number("scale_depth") / std::sqrt(static_cast<double>(layers)));
  t.out().number(t.key("logit_scale"), static_cast<double>(embedding) / t.needed_number("dim_model_base"));
}

// Gemma 4: layers that see all positions have heads of their own, the last layers share keys and values, and their
// networks may be twice as wide.
void translate_gemma4(Translation& t, const Config& config, int64_t head_dim, int64_t global_head_dim) {
  if (config.layers > kMostLayers) return;   // the model refuses so many
  AssembledFile& out = t.out();
  const auto size = [&](std::string_view name, int64_t value) { out.integer(t.key(name), static_cast<uint64_t>(value)); };
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
  if (global_heads != config.kv_heads && global_heads <= kMost) {
    auto windowed = windowed_layers(t, layers);
    std::vector<int32_t> heads(layers);
    for (size_t i = 0; i < layers; ++i)
      heads[i] = static_cast<int32_t>((windowed ? (*windowed)[i] : (i + 1) % 6 != 0) ? config.kv_heads : global_heads);
    out.integers(t.key("attention.head_count_kv"), heads);
  }
  if (t.boolean("use_double_wide_mlp", false)) {
    const int64_t n_ff = t.needed({"intermediate_size"});
    if (n_ff > kMost / 2) return;
    std::vector<int32_t> widths(layers, static_cast<int32_t>(n_ff));
    for (size_t i = layers - std::min(layers, static_cast<size_t>(shared)); i < layers; ++i) widths[i] *= 2;
    out.integers(t.key("feed_forward_length"), widths);
  }
  if (t.find("use_bidirectional_attention").text() == "all")
    t.fail(t.find("use_bidirectional_attention").unsupported("is 'all', which is not computed"));
}

// Settings that change the network and have no key in GGUF, each with the values that mean "not used".
void check_unused(Translation& t) {
  for (const std::string_view name : {"clip_qkv", "sparse_config"})
    if (const JsonValue value = t.find(name); value.exists())
      t.fail(value.unsupported("is set, which is not computed"));
  if (t.number("swiglu_limit", 7) != 7) t.fail(t.find("swiglu_limit").unsupported("is not 7"));
  if (t.boolean("norm_head", false)) t.fail(t.find("norm_head").unsupported("is true, which is not computed"));
}

// Every fourth layer of SmolLM3 does not rotate; a list says which.
void check_unrotated_layers(Translation& t) {
  if (t.architecture().gguf != "smollm3") return;
  const JsonValue list = t.find("no_rope_layers");
  auto flags = list.numbers();
  if (!flags) return t.fail(flags.error());
  for (size_t i = 0; i < flags->size(); ++i)
    if (((*flags)[i] != 0) != ((i + 1) % 4 != 0))
      return t.fail(list.unsupported("is not the pattern of three layers that rotate and one that does not"));
}

}  // namespace

Result<Config> translate_config(const JsonValue& config, AssembledFile& file) {
  auto architecture = read_architecture(config);
  if (!architecture) return architecture.error();
  Translation t(config, **architecture, file);
  for (const std::string_view name : {"quantization_config", "compression_config"}) {
    if (const JsonValue quantized = t.find(name);
        quantized.exists() && !((*architecture)->gguf == "gpt-oss" && quantized["quant_method"].text() == "mxfp4"))
      return quantized.unsupported("(method " + quoted(quantized["quant_method"].text()) +
                                   "): quantized checkpoints are not read; take one in BF16, F16 or F32, and set "
                                   "the model's 'quantize'");
  }
  Config result{.architecture = *architecture};
  AssembledFile& out = file;
  out.string("general.architecture", (*architecture)->gguf);
  const int64_t context = t.needed({"max_position_embeddings"});
  const int64_t embedding = t.needed({"hidden_size"});
  result.layers = t.needed({"num_hidden_layers", "num_layers"});
  result.heads = t.needed({"num_attention_heads"});
  result.kv_heads = t.integer("num_key_value_heads", result.heads);
  const bool gemma4 = (*architecture)->gguf == "gemma4";
  const bool own_head_dim = t.find("head_dim").exists() && (*architecture)->gguf != "granite";
  const int64_t head_dim = own_head_dim ? t.needed({"head_dim"}) : embedding / std::max<int64_t>(result.heads, 1);
  const auto size = [&](std::string_view name, int64_t value) { out.integer(t.key(name), static_cast<uint64_t>(value)); };
  size("context_length", context);
  size("embedding_length", embedding);
  size("block_count", result.layers);
  const bool double_wide = gemma4 && t.boolean("use_double_wide_mlp", false);
  if (!double_wide) size("feed_forward_length", t.needed({"intermediate_size", "moe_intermediate_size"}));
  size("attention.head_count", result.heads);
  const bool other_global_heads = gemma4 && t.boolean("attention_k_eq_v", false) &&
                                  t.integer("num_global_key_value_heads", result.kv_heads) != result.kv_heads;
  if (!other_global_heads) size("attention.head_count_kv", result.kv_heads);
  if (own_head_dim && !gemma4) {
    size("attention.key_length", head_dim);
    size("attention.value_length", head_dim);
  }
  out.number(t.key("attention.layer_norm_rms_epsilon"),
             t.number("rms_norm_eps", t.number("layer_norm_epsilon", (*architecture)->rms_eps)));
  check_activation(t);
  check_unused(t);
  constexpr int64_t kUsualGlobalHead = 512;
  const int64_t global_head_dim = gemma4 ? t.integer("global_head_dim", kUsualGlobalHead) : head_dim;
  translate_rope(t, context, global_head_dim);
  translate_windows(t, result.layers);
  translate_experts(t, result);
  check_unrotated_layers(t);
  if (gemma4) translate_gemma4(t, result, head_dim, global_head_dim);
  translate_scales(t, result.layers, embedding);
  if ((*architecture)->gguf == "gemma2" || (*architecture)->gguf == "gemma3") {
    // The scale of scores is the width of a head to -1/2, but in the largest of each: GGUF knows them by their layers.
    const double scaled = t.number("query_pre_attn_scalar", static_cast<double>(head_dim));
    const bool largest = result.layers == 46 || result.layers == 62;
    const double expected =
        largest ? static_cast<double>(embedding) / static_cast<double>(result.heads) : static_cast<double>(head_dim);
    if (scaled != expected) t.fail(t.find("query_pre_attn_scalar").unsupported("is not the width of a head"));
  }
  // Gemma's files leave it out and mean true.
  result.tied = t.boolean("tie_word_embeddings", (*architecture)->gguf.starts_with("gemma"));
  if (!t.status()) return t.status().error();
  return result;
}

}  // namespace monolith::hf
