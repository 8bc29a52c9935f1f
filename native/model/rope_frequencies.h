// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): the angle each pair of dimensions
// turns by per position, with the scalings that stretch a model's context. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"
#include "model/model.h"

namespace monolith {

// Bounds and default of `rope.freq_base`. Above 1, so that its logarithm divides; 1e15 is far
// beyond every published model.
inline constexpr double kMinRopeBase = 1.001, kMaxRopeBase = 1e15, kDefaultRopeBase = 10000;

// YaRN (Peng et al. 2023, arXiv:2309.00071) as the models that carry it were trained.
struct YarnScaling {
  double factor = 1;            // s: context is stretched by this much
  double original_context = 0;  // L: positions the model was first trained on
  double beta_fast = 32;        // dimensions turning more often than this within L keep their frequency
  double beta_slow = 1;         // those turning less often than this are interpolated fully
  double extrapolation = 1;     // share of the ramp that is applied; 0 = plain interpolation
  double attention_factor = 1;  // multiplies the magnitude
};

// base^(-2i/n_dims) for i in [0, n_dims/2). n_dims even and positive, base > 0.
std::vector<double> plain_rope_frequencies(int n_dims, double base);

// Section 3.2 to 3.4: interpolates low frequencies by 1/s, keeps high ones, blends between; the
// magnitude sqrt(1/t) = 0.1 ln(s) + 1. `frequencies` are changed in place.
float apply_yarn(const YarnScaling& yarn, double base, std::vector<double>& frequencies);

// What `rope.scaling.yarn_log_multiplier` means. With m(x) = 1 + 0.1 x ln(factor), the magnitude of queries and keys is
// m(1) without it.
enum class YarnLog : uint8_t {
  kRefused,
  // The key holds a tenth of l: the magnitude becomes m(1) / m(l), and latent attention's scores are multiplied by
  // (magnitude * m(l))^2 besides.
  kTenth,
  kWhole,       // the key holds l; nothing else follows
  kTenthAlone,  // likewise, and the magnitude is 1 whatever l is
};

// Which of a row's three numbers each of `n_pairs` pairs turns by. Sections of pairs for time, height and width lie one behind
// the other and again from the first, or take turns: pair 3 i + 1 is of the height as long as i is less than its section,
// pair 3 i + 2 of the width, and all others are of the time (Qwen3-VL, arXiv:2511.21631). Empty: all sections are.
std::vector<uint8_t> rope_axes(int n_pairs, std::span<const int> sections, bool interleaved);

// Everything the file says: `<arch>.rope.freq_base` (or `base_key` in its place; times alpha^(n_dims / (n_dims - 2))), `<arch>.rope.scaling.*`, and, where
// `use_factors`, the tensors whose values divide the frequencies: rope_freqs.weight (Llama 3), or
// LongRoPE's (Ding et al. 2024, arXiv:2402.13753) rope_factors_short.weight and
// rope_factors_long.weight, the latter if max_context goes beyond the context the model was first
// trained on. Errors: kInvalidFile (out of range, wrong shape), kUnsupported (scaling kind, named).
Result<RopeSet> read_rope_frequencies(const GgufFile& file, std::string_view architecture, int n_dims,
                                      int context_length, int max_context, bool use_factors,
                                      YarnLog log = YarnLog::kRefused, std::string_view base_key = "rope.freq_base");

}  // namespace monolith
