// Translates a checkpoint's RoPE settings to GGUF keys, and adds the factor tensors of the scaling methods that need
// them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/gguf/parser.h"
#include "formats/hf/translation.h"

namespace monolith::hf {
namespace {

// Expresses Llama 3 RoPE scaling as frequency factors: the full factor for long wavelengths, 1 for short wavelengths,
// and an interpolated factor in between.
void add_llama3_factors(Translation& t, const JsonValue& rope, double base, int64_t dims) {
  const auto value = [&](std::string_view name, double fallback) { return t.take(rope[name].number(), fallback); };
  const double factor = value("factor", 8), low = value("low_freq_factor", 1), high = value("high_freq_factor", 4);
  const double context = value("original_max_position_embeddings", 8192);
  if (!(factor > 0 && low > 0 && high > low && context > 0 && base > 1) || dims < 2 || dims > 1 << 16)
    return t.fail(rope.invalid("contains factors that do not define a valid scaling"));
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

// Adds LongRoPE scaling: two sets of factors, and the attention scale that goes with them.
void add_long_rope(Translation& t, const JsonValue& rope, int64_t context) {
  const int64_t original = t.take(t.first_of({"original_max_position_embeddings"}).integer(1, kMax),
                                  t.take(rope["original_max_position_embeddings"].integer(1, kMax), context));
  auto longer = rope["long_factor"].numbers(), shorter = rope["short_factor"].numbers();
  if (!longer) return t.fail(longer.error());
  if (!shorter) return t.fail(shorter.error());
  if (longer->empty() || longer->size() != shorter->size())
    return t.fail(rope.invalid("must contain 'long_factor' and 'short_factor' of equal length"));
  const double stretch = static_cast<double>(context) / static_cast<double>(original);
  const double magnitude = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original))) : 1;
  t.out().string(t.key("rope.scaling.type"), "longrope");
  t.out().integer(t.key("rope.scaling.original_context_length"), static_cast<uint64_t>(original));
  // Phi-3.5-MoE specifies separate attention scales for short and long contexts.
  const JsonValue near = rope["short_mscale"], far = rope["long_mscale"];
  const double stated = t.take(far.number(), magnitude);
  if (t.take(near.number(), stated) != stated)
    t.fail(near.unsupported("differs from 'long_mscale', which is not supported"));
  t.out().number(t.key("rope.scaling.attn_factor"), t.take(rope["attention_factor"].number(), stated));
  t.out().tensor("rope_factors_long.weight", *longer);
  t.out().tensor("rope_factors_short.weight", *shorter);
}

// DeepSeek has two YaRN settings, mscale and mscale_all_dim. With m(x) = 1 + 0.1 x ln(factor), RoPE scales the rotated
// values by m(mscale) / m(mscale_all_dim), and the attention scores are multiplied by m(mscale_all_dim)^2.
void add_yarn_scale(Translation& t, const JsonValue& rope) {
  const YarnScale kind = t.architecture().yarn_scale;
  const JsonValue one = rope["mscale"], all = rope["mscale_all_dim"];
  if (kind == YarnScale::kNone) {
    for (const JsonValue& value : {one, all})
      if (value.exists()) t.fail(value.unsupported("is not supported"));
    return;
  }
  if (!all.exists()) {
    if (kind == YarnScale::kTenth) t.fail(all.unsupported("is missing: YaRN for MLA requires it"));
    return;
  }
  const double scale = t.take(all.number(), 1.0);
  if (t.take(one.number(), scale) != scale || !(scale > 0))
    t.fail(one.unsupported("differs from 'mscale_all_dim', which is not supported"));
  t.out().number(t.key("rope.scaling.yarn_log_multiplier"), kind == YarnScale::kTenth ? 0.1 * scale : scale);
}

void add_yarn(Translation& t, const JsonValue& rope) {
  t.out().string(t.key("rope.scaling.type"), "yarn");
  t.out().number(t.key("rope.scaling.factor"), t.take(rope["factor"].number(), 1.0));
  const auto original = rope["original_max_position_embeddings"].integer(1, kMax);
  if (!original) return t.fail(original.error());
  if (*original) t.out().integer(t.key("rope.scaling.original_context_length"), static_cast<uint64_t>(**original));
  const auto copy = [&](std::string_view from, std::string_view to) {
    if (rope[from].exists()) t.out().number(t.key(to), t.take(rope[from].number(), 0.0));
  };
  copy("extrapolation_factor", "rope.scaling.yarn_ext_factor");
  copy("beta_fast", "rope.scaling.yarn_beta_fast");
  copy("beta_slow", "rope.scaling.yarn_beta_slow");
  // The checkpoint contains the total scale of the rotated values, whereas GGUF stores that scale divided by 0.1
  // ln(factor) + 1.
  const double factor = t.take(rope["factor"].number(), 1.0);
  if (rope["attention_factor"].exists() && factor > 0) {
    const double magnitude = t.take(rope["attention_factor"].number(), 1.0);
    t.out().number(t.key("rope.scaling.attn_factor"), magnitude / (0.1 * std::log(std::max(factor, 1.0)) + 1));
  }
  add_yarn_scale(t, rope);
}

// RoPE rotates only the first pairs of a head, the fraction `share` of all pairs, at the frequencies that follow from
// the full head width. The factors of all other pairs are so large that these pairs effectively do not rotate.
void add_proportional_rope(Translation& t, double share, int64_t head_dim) {
  constexpr float kNever = 1e30f;
  if (head_dim < 2 || head_dim > 1 << 16)
    return t.fail(t.find("rope_parameters").invalid("requires a head size of at least 2"));
  t.out().integer(t.key("rope.dimension_count"), static_cast<uint64_t>(head_dim));
  std::vector<float> factors(static_cast<size_t>(head_dim / 2), kNever);
  const auto turning = static_cast<size_t>(static_cast<double>(head_dim) * share / 2);
  std::fill_n(factors.begin(), std::min(turning, factors.size()), 1.0f);
  t.out().tensor("rope_freqs.weight", factors);
}

}  // namespace

namespace {

// M-RoPE sections: the number of pairs rotated by time, height and width.
void put_sections(Translation& t, const JsonValue& sections) {
  std::vector<int32_t> parts;
  for (size_t i = 0; i < std::min<size_t>(sections.items().size(), 4); ++i)
    parts.push_back(static_cast<int32_t>(t.take(sections.item(i).integer(0, 1 << 16), int64_t{0})));
  parts.resize(4);
  t.out().integers(t.key("rope.dimension_sections"), parts);
}

}  // namespace

void translate_rope(Translation& t, int64_t context, int64_t head_dim) {
  // Old checkpoints have the base next to "rope_scaling". New checkpoints have all RoPE settings in "rope_parameters",
  // sometimes separately for each kind of layer.
  JsonValue rope = t.first_of({"rope_parameters", "rope_scaling"});
  const JsonValue windowed = rope["sliding_attention"];
  if (rope["full_attention"].exists()) rope = rope["full_attention"];
  // In DeepSeek V4, layers without compressed blocks have separate RoPE parameters ("main"). Only the parameters of
  // layers with compressed blocks ("compress") may include scaling.
  const JsonValue plain = rope["main"];
  if (plain.exists()) rope = rope["compress"];
  if (const JsonValue kind = plain["rope_type"]; kind.exists() && kind.text() != "default")
    t.fail(
        kind.unsupported("is " + in_quotes(kind.text()) +
                         ", expected 'default': RoPE scaling is not supported for layers without compressed blocks"));
  if (rope.exists() && !rope.is_object()) return t.fail(rope.invalid("is not an object"));
  if (rope["mrope_section"].exists()) put_sections(t, rope["mrope_section"]);
  const auto value = [&](std::string_view name, double fallback) {
    return t.take(rope[name].number(), t.find(name).is_array() ? fallback : t.number(name, fallback));
  };
  double base = value("rope_theta", t.architecture().gguf == "gemma3" ? 1e6 : t.architecture().rope_base);
  if (plain.exists()) base = t.take(plain["rope_theta"].number(), t.number("rope_theta", t.architecture().rope_base));
  const JsonValue kind_value = rope["rope_type"].exists() ? rope["rope_type"] : rope["type"];
  const std::string_view kind = kind_value.text();
  // Hunyuan scales the base (NTK-aware interpolation, modeling_hunyuan_v1_dense.py).
  const double alpha = kind == "dynamic" ? t.take(rope["alpha"].number(), 0.0) : 0;
  if (alpha > 0 && head_dim > 2)
    base *= std::pow(alpha, static_cast<double>(head_dim) / static_cast<double>(head_dim - 2));
  t.out().number(t.key("rope.freq_base"), base);
  const double windowed_base = t.take(windowed["rope_theta"].number(), t.number("rope_local_base_freq", 0));
  if (windowed_base > 0) t.out().number(t.key("rope.freq_base_swa"), windowed_base);
  const double share = value("partial_rotary_factor", t.architecture().rotated_share);
  if (!(share > 0 && share <= 1)) return t.fail(t.find("partial_rotary_factor").invalid("is out of range"));
  if (kind == "proportional") return add_proportional_rope(t, share, head_dim);
  const int64_t dims = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  t.out().integer(t.key("rope.dimension_count"), static_cast<uint64_t>(dims));

  // "dynamic" scaling affects only positions beyond the context length for which the model was trained, and Monolith
  // does not serve longer contexts.
  if (kind.empty() || kind == "default" || kind == "mrope" || kind == "dynamic") return;
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
    t.fail(
        kind_value.unsupported("is " + in_quotes(kind) +
                               ", which is not supported (known: default, dynamic, linear, llama3, longrope, yarn)"));
  }
}

}  // namespace monolith::hf
