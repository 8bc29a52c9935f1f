// Decides when steps of one batch size are captured as a CUDA graph, and when a failed capture is retried.
#pragma once

#include <algorithm>
#include <cstdint>

namespace monolith::cuda {

enum class RecordingOutcome : uint8_t { kRecorded, kRefused, kNoMemory };

// A refused capture may be due to programmatic dependent launch, so the next try is without it. If that try is refused
// too, or memory is short, retries back off exponentially but never stop, because memory may become free again.
class RecordingTries {
 public:
  // Bounds of the retry delay, counted in steps of this batch size.
  static constexpr int64_t kFirstWait = 64, kLongestWait = 65'536;

  // Returns whether this step should be captured. Call once for each step of this batch size that has no graph yet. The
  // first step is never captured, because operations do their one-time setup in that step.
  bool due() {
    if (wait_ == 0) return true;
    --wait_;
    return false;
  }
  // Returns whether the next try may use programmatic dependent launch.
  bool early() const { return early_; }

  void note(RecordingOutcome outcome) {
    if (outcome == RecordingOutcome::kRecorded) return;
    if (outcome == RecordingOutcome::kRefused && early_) {
      early_ = false;
      return;
    }
    early_ = true;
    wait_ = next_wait_;
    next_wait_ = std::min(next_wait_ * 2, kLongestWait);
  }

 private:
  int64_t wait_ = 1, next_wait_ = kFirstWait;
  bool early_ = true;
};

}  // namespace monolith::cuda
