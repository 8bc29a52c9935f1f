// Rotary position embedding (RoPE, Su et al. 2021, arXiv:2104.09864): the angle per position for each pair of
// dimensions. Includes the scaling methods that extend a model's context. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/model.h"

namespace monolith {

// Limits and default for `rope.freq_base`. The base must be above 1, because other code divides by its logarithm. 1e15
// is far above the base of every published model.
inline constexpr double kMinRopeBase = 1.001, kMaxRopeBase = 1e15, kDefaultRopeBase = 10000;

// YaRN (Peng et al. 2023, arXiv:2309.00071), in the variant that was used to train the published models.
struct YarnScaling {
  double factor = 1;            // s: the factor by which the context is extended.
  double original_context = 0;  // L: the context length of the original training.
  double beta_fast = 32;        // Dimensions that rotate more often than this within L keep their frequency.
  double beta_slow = 1;         // Dimensions that rotate less often than this within L are fully interpolated.
  double extrapolation = 1;     // Fraction of the ramp that is applied; 0: plain interpolation.
  double attention_factor = 1;  // Multiplies the magnitude.
};

// Returns base^(-2i/n_dims) for i in [0, n_dims/2). n_dims must be even and positive, and base above 0.
std::vector<double> plain_rope_frequencies(int n_dims, double base);

// Applies sections 3.2 to 3.4 of the YaRN paper: interpolates low frequencies by 1/s, leaves high frequencies unchanged
// and blends in between. Changes `frequencies` in place and returns the magnitude, sqrt(1/t) = 0.1 ln(s) + 1.
float apply_yarn(const YarnScaling& yarn, double base, std::vector<double>& frequencies);

// How `rope.scaling.yarn_log_multiplier` is interpreted. Let m(x) = 1 + 0.1 x ln(factor). Without the key, queries and
// keys are multiplied by the magnitude m(1).
enum class YarnLog : uint8_t {
  kRefused,
  // The key contains l / 10. The magnitude is m(1) / m(l), and the scores of MLA layers are multiplied by (magnitude *
  // m(l))^2.
  kTenth,
  kWhole,       // The key holds l, with no further effect.
  kTenthAlone,  // Like kTenth, but the magnitude is 1 for any l.
};

// Returns which of a token's three position components rotates each of `n_pairs` pairs. Contiguous sections: the pairs
// for time, height and width follow one another, and the sequence repeats. Interleaved sections: pair 3 i + 1 is
// rotated by height if i is below the size of height's section, pair 3 i + 2 by width under the same condition, and all
// other pairs by time (Qwen3-VL, arXiv:2511.21631). The result is empty if all sections are empty.
std::vector<uint8_t> rope_axes(int n_pairs, std::span<const int> sections, bool interleaved);

// Reads all RoPE settings of the file: `<arch>.rope.freq_base` or `base_key` (multiplied by alpha^(n_dims / (n_dims -
// 2))) and `<arch>.rope.scaling.*`. With `use_factors`, also reads the tensors whose values divide the frequencies:
// rope_freqs.weight (Llama 3), or rope_factors_short.weight and rope_factors_long.weight (LongRoPE, Ding et al. 2024,
// arXiv:2402.13753). The long factors apply if max_context exceeds the original training context. Errors: kInvalidFile
// (out of range, wrong shape), kUnsupported (the message names the scaling type).
Result<RopeSet> read_rope_frequencies(const GgufFile& file, std::string_view architecture, int n_dims,
                                      int context_length, int max_context, bool use_factors,
                                      YarnLog log = YarnLog::kRefused, std::string_view base_key = "rope.freq_base");

}  // namespace monolith
