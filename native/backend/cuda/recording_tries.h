// When steps of one size are recorded, and tried again after that could not be done.
#pragma once

#include <algorithm>
#include <cstdint>

namespace monolith::cuda {

enum class RecordingOutcome : uint8_t { kRecorded, kRefused, kNoMemory };

// A refusal may come from early launches, so the next try is without them. If that is refused too, or memory is short,
// the next try waits: longer each time, but never for good, as memory comes back.
class RecordingTries {
 public:
  static constexpr int64_t kFirstWait = 64, kLongestWait = 65'536;  // steps of this size

  // Of each step of this size that is not recorded yet: whether it shall be. The first is computed plainly: what
  // operations prepare once is prepared then.
  bool due() {
    if (wait_ == 0) return true;
    --wait_;
    return false;
  }
  // Whether the next try may have early launches.
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
