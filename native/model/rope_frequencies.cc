#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "formats/gguf/parser.h"
#include "model/metadata_reader.h"

namespace monolith {
namespace {

// Returns the (fractional) index of the dimension pair that makes `rotations` full rotations within the original
// context.
double pair_turning(double rotations, int n_dims, double original_context, double base) {
  return n_dims * std::log(original_context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// Returns the name of the tensor whose values divide the frequencies, or null if the file has none.
const char* factors_name(const GgufFile& file, bool is_long) {
  constexpr const char* kLong = "rope_factors_long.weight";
  constexpr const char* kShort = "rope_factors_short.weight";
  if (file.tensor("rope_freqs.weight") != nullptr) return "rope_freqs.weight";
  if (file.tensor(kLong) == nullptr && file.tensor(kShort) == nullptr) return nullptr;
  return is_long ? kLong : kShort;
}

Status divide_by_factors(const GgufFile& file, const std::string& name, std::vector<double>& frequencies) {
  const GgufTensor* tensor = file.tensor(name);
  if (tensor == nullptr) return Error{ErrorCode::kInvalidFile, "tensor '" + name + "' is missing"};
  // If layers rotate different fractions of a head, the tensor has enough values for the largest fraction.
  const int64_t n = static_cast<int64_t>(frequencies.size());
  if (tensor->type != TensorType::kF32 || tensor->shape[0] < n || tensor->n_values() != tensor->shape[0]) {
    return Error{ErrorCode::kInvalidFile, "tensor '" + name + "' must be F32 with at least " + std::to_string(n) +
                                              " values (half of the rotated dimensions), found " +
                                              std::to_string(tensor->n_values()) + " of " +
                                              std::string(traits_of(tensor->type).name)};
  }
  std::vector<float> factors(frequencies.size());
  dequantize(TensorType::kF32, tensor->data.data(), n, factors.data());
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(factors[i] > 0) || !std::isfinite(factors[i])) {
      return Error{ErrorCode::kInvalidFile,
                   "tensor '" + name + "' contains a factor that is not positive, at index " + std::to_string(i)};
    }
    frequencies[i] /= factors[i];
  }
  return {};
}

}  // namespace

std::vector<double> plain_rope_frequencies(int n_dims, double base) {
  std::vector<double> frequencies(static_cast<size_t>(n_dims) / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / n_dims);
  }
  return frequencies;
}

std::vector<uint8_t> rope_axes(int n_pairs, std::span<const int> sections, bool interleaved) {
  const int time = sections[0], height = sections[1], width = sections[2], sum = time + height + width;
  if (sum == 0) return {};
  std::vector<uint8_t> axes(static_cast<size_t>(n_pairs));
  for (int pair = 0; pair < n_pairs; ++pair) {
    int axis = 0;
    if (interleaved) {
      const int turn = pair % 3;
      if (turn > 0 && pair < 3 * sections[static_cast<size_t>(turn)]) axis = turn;
    } else {
      const int within = pair % sum;
      axis = within < time ? 0 : within < time + height ? 1 : 2;
    }
    axes[static_cast<size_t>(pair)] = static_cast<uint8_t>(axis);
  }
  return axes;
}

float apply_yarn(const YarnScaling& yarn, double base, std::vector<double>& frequencies) {
  const int n_dims = static_cast<int>(frequencies.size()) * 2;
  // In the paper, the ramp depends on the number of rotations. The authors' code, which was used to train the models,
  // instead interpolates by the index of the pair, between these two limits (rounded outward).
  const double first = std::max(0.0, std::floor(pair_turning(yarn.beta_fast, n_dims, yarn.original_context, base)));
  const double last =
      std::min(n_dims - 1.0, std::ceil(pair_turning(yarn.beta_slow, n_dims, yarn.original_context, base)));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double along = (static_cast<double>(i) - first) / std::max(0.001, last - first);
    const double kept = (1 - std::clamp(along, 0.0, 1.0)) * yarn.extrapolation;
    frequencies[i] = frequencies[i] / yarn.factor * (1 - kept) + frequencies[i] * kept;
  }
  const double magnitude = yarn.extrapolation == 0 ? 1 : 0.1 * std::log(yarn.factor) + 1;
  return static_cast<float>(magnitude * yarn.attention_factor);
}

Result<RopeSet> read_rope_frequencies(const GgufFile& file, std::string_view architecture, int n_dims,
                                      int context_length, int max_context, bool use_factors, YarnLog log,
                                      std::string_view base_key) {
  const MetadataReader read(file, architecture);
  auto base = read.number(base_key, kMinRopeBase, kMaxRopeBase, kDefaultRopeBase);
  if (!base) return base.error();
  // "NTK-aware" scaling; find_architecture() determines which models use this method.
  auto alpha = read.number("rope.scaling.alpha", 0, 1e6, 0.0);
  if (!alpha) return alpha.error();
  if (*alpha > 0 && n_dims > 2) *base *= std::pow(*alpha, static_cast<double>(n_dims) / (n_dims - 2));
  if (!(*base >= kMinRopeBase && *base <= kMaxRopeBase))
    return Error{ErrorCode::kInvalidFile,
                 "'" + read.key("rope.scaling.alpha") + "' results in a RoPE base that is out of range"};
  auto original = read.integer("rope.scaling.original_context_length", 1, int64_t{1} << 27, context_length);
  if (!original) return original.error();
  std::vector<double> frequencies = plain_rope_frequencies(n_dims, *base);
  if (use_factors) {
    const char* name = factors_name(file, max_context > *original);
    if (name != nullptr) {
      if (Status s = divide_by_factors(file, name, frequencies); !s) return s.error();
    }
  }

  // If the file has a factor but no scaling type, the scaling is linear. In early files, the factor's key is
  // rope.scale_linear. A factor of 0 means 1.
  auto kind = read.string("rope.scaling.type", "linear");
  if (!kind) return kind.error();
  auto factor = read.number(read.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", 0, 1e6, 1.0);
  if (!factor) return factor.error();
  const double stretch = *factor == 0 ? 1.0 : *factor;

  RopeSet result;
  if (*kind == "linear" || *kind == "longrope" || *kind == "none") {
    auto magnitude = read.number("rope.scaling.attn_factor", 1e-3, 1e3, 1.0);
    if (!magnitude) return magnitude.error();
    result.magnitude = static_cast<float>(*magnitude);
    if (*kind == "linear") {
      for (double& frequency : frequencies) frequency /= stretch;
    }
  } else if (*kind == "yarn") {
    constexpr std::string_view kLog = "rope.scaling.yarn_log_multiplier";
    if (log == YarnLog::kRefused) {
      if (Status s = read.refuse_unless(kLog, 0, "YaRN with a log multiplier"); !s) return s.error();
    }
    auto tenth = read.number(kLog, 0, 1e3, 0.0);
    if (!tenth) return tenth.error();
    auto fast = read.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
    auto slow = read.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
    auto extrapolation = read.number("rope.scaling.yarn_ext_factor", 0, 1, 1.0);
    // Olmo 3 files also contain yarn_attn_factor. This key specifies the total magnitude, which already follows from
    // the scaling factor.
    auto attention = read.number("rope.scaling.attn_factor", 1e-3, 1e3, 1.0);
    for (const auto* value : {&fast, &slow, &extrapolation, &attention}) {
      if (!*value) return value->error();
    }
    result.magnitude = apply_yarn({stretch, static_cast<double>(*original), *fast, *slow, *extrapolation, *attention},
                                  *base, frequencies);
    if (log == YarnLog::kWhole) *tenth *= 0.1;
    const double grown = 1 + *tenth * std::log(std::max(stretch, 1.0));  // The function m(l) in YarnLog.
    if (*tenth > 0) {
      const bool alone = log == YarnLog::kTenthAlone && *extrapolation > 0;
      result.magnitude = alone ? static_cast<float>(*attention) : static_cast<float>(result.magnitude / grown);
    }
    if (log != YarnLog::kRefused) result.score_factor = static_cast<float>(std::pow(result.magnitude * grown, 2));
  } else {
    return Error{ErrorCode::kUnsupported, "RoPE scaling " + in_quotes(*kind) + " is not supported ('" +
                                              read.key("rope.scaling.type") +
                                              "'; known: none, linear, yarn, longrope)"};
  }
  result.n_dims = n_dims;
  result.inverse_frequency.assign(frequencies.begin(), frequencies.end());
  return result;
}

}  // namespace monolith
