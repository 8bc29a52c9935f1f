// How many prompt tokens may share a step with running decodes, so that a long prompt does not hold them
// up for longer than the operator allows. Engine thread only.
//
// A step's time is taken as base + tokens * each: `base` is what a step of decodes alone costs (reading the
// weights), `each` what a prompt token adds. Both are running averages of measured steps. What it decides
// is only how a prompt is cut, which no result depends on.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace monolith {

class StepPace {
 public:
  // target_ms <= 0: no bound.
  explicit StepPace(double target_ms) : target_ms_(target_ms) {}

  void aim_at(double target_ms) { target_ms_ = target_ms; }

  // A step of `decodes` running sequences and `prompt_tokens` took `ms`.
  void note(int decodes, int prompt_tokens, double ms) {
    if (prompt_tokens == 0) {
      if (decodes > 0) average(base_ms_, ms);
    } else {
      average(each_ms_, std::max(0.0, ms - base_ms_) / prompt_tokens);
    }
  }

  // Prompt tokens for the next step beside decodes; at least kLeast, so that prompts always move on. `shared`: half of the time
  // is for other work.
  int prompt_tokens(bool shared = false) const {
    if (target_ms_ <= 0) return kNoBound;
    if (each_ms_ <= 0) return kUnmeasured;
    const double tokens = (target_ms_ - base_ms_) / (shared ? 2 : 1) / each_ms_;
    return static_cast<int>(std::clamp(tokens, double{kLeast}, double{kNoBound}));
  }

  // Time for other work behind a step with decodes that took so long.
  std::chrono::milliseconds beside_decodes(double step_ms) const {
    const double ms = target_ms_ <= 0 ? kUnboundMs : std::max(target_ms_ - step_ms, kLeastMs);
    return std::chrono::milliseconds(static_cast<int64_t>(std::min(ms, kUnboundMs)));
  }

  static constexpr double kLeastMs = 5, kUnboundMs = 250;
  static constexpr int kLeast = 16;       // one page
  static constexpr int kUnmeasured = 64;  // before the first prompt has been computed
  static constexpr int kNoBound = 1 << 30;

 private:
  // Quick to follow a change of load, slow enough to ride out one interrupted step.
  static void average(double& mean, double sample) { mean = mean == 0 ? sample : mean + 0.2 * (sample - mean); }

  double target_ms_;
  double base_ms_ = 0, each_ms_ = 0;
};

}  // namespace monolith
