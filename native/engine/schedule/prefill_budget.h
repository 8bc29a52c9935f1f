// Prefill budget: limits the prompt tokens that share a step with decodes, so that a long prefill does not raise the
// inter-token latency above the operator's target. Engine thread only.
//
// The duration of a step is modeled as base + tokens * each. `base` is the time of a step with decodes only (reading
// the weights), `each` the additional time per prompt token. Both are running averages of measured steps. The budget
// only decides how prompts are split into chunks, which does not affect results.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace monolith {

class PrefillBudget {
 public:
  // `target_ms`: target duration of a step with decodes, in ms; 0 or less = no limit.
  explicit PrefillBudget(double target_ms) : target_ms_(target_ms) {}

  void aim_at(double target_ms) { target_ms_ = target_ms; }

  // Records a step that took `ms` milliseconds with `decodes` decoding sequences and `prompt_tokens` prompt tokens.
  void note(int decodes, int prompt_tokens, double ms) {
    if (prompt_tokens == 0) {
      if (decodes > 0) average(base_ms_, ms);
    } else {
      average(each_ms_, std::max(0.0, ms - base_ms_) / prompt_tokens);
    }
  }

  // Prompt tokens allowed in the next step with decodes; at least kMin, so that prefill always advances. `shared`:
  // prefill may use only half of the time, because the vision encoder uses the other half.
  int prompt_tokens(bool shared = false) const {
    if (target_ms_ <= 0) return kNoBound;
    if (each_ms_ <= 0) return kUnmeasured;
    const double tokens = (target_ms_ - base_ms_) / (shared ? 2 : 1) / each_ms_;
    return static_cast<int>(std::clamp(tokens, double{kMin}, double{kNoBound}));
  }

  // Time available for other work after a step with decodes that took `step_ms`.
  std::chrono::milliseconds beside_decodes(double step_ms) const {
    const double ms = target_ms_ <= 0 ? kUnboundMs : std::max(target_ms_ - step_ms, kMinMs);
    return std::chrono::milliseconds(static_cast<int64_t>(std::min(ms, kUnboundMs)));
  }

  static constexpr double kMinMs = 5, kUnboundMs = 250;
  static constexpr int kMin = 16;         // Minimum prompt tokens per step: one page.
  static constexpr int kUnmeasured = 64;  // Prompt tokens per step until the first prefill has been measured.
  static constexpr int kNoBound = 1 << 30;

 private:
  // With a weight of 0.2, the average follows a change in load quickly but dampens a single outlier.
  static void average(double& mean, double sample) { mean = mean == 0 ? sample : mean + 0.2 * (sample - mean); }

  double target_ms_;
  double base_ms_ = 0, each_ms_ = 0;
};

}  // namespace monolith
