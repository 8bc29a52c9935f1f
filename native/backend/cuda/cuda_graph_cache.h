// The cache of CUDA graphs: decode steps are captured once per batch size and replayed after that. The cache also
// records why captures failed. Used by the engine thread only, except note().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

enum class RecordingOutcome : uint8_t { kRecorded, kRefused, kNoMemory };

// Decides when steps of one batch size are captured as a CUDA graph, and when a failed capture is retried. Programmatic
// dependent launch can make a capture fail, so the next attempt disables it. If that attempt also fails, or if there is
// not enough memory, the delay before the next attempt doubles each time. Retries never stop, because memory may become
// free again.
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
  // Returns whether the next attempt to capture may use programmatic dependent launch.
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

class CudaGraphCache {
 public:
  CudaGraphCache(Runtime& runtime, bool early_launch) : runtime_(runtime), early_launch_(early_launch) {}

  // Returns the padded batch size of a step of `n_rows` decode tokens, or 0 if steps of that size are never captured.
  static int padded_rows(int n_rows);
  // Number of batch sizes that can be captured.
  static size_t n_sizes();

  // Discards all graphs. They refer to scratch memory that is about to be freed.
  void forget() { steps_.clear(); }
  // Aborts the capture because the step failed.
  void drop();
  // Starts a step of `rows` decode tokens of one model. `rows` is 0 for steps that are not captured. `has_splits`:
  // whether any token's context is split over several warps, which requires an additional attention kernel. Returns
  // true if end() will replay a graph, in which case no operation needs to be launched.
  bool begin(const void* model, int rows, bool has_splits);
  // Replays the step's graph, or finishes the capture of the step.
  void end();
  // Padded number of tokens of the current step; 0 if the step is not captured.
  int rows() const { return step_ ? step_->rows : 0; }
  // Returns the first capture failure of each kind. May be called from any thread.
  std::string note() const;

 private:
  struct Step {
    const void* model;
    int rows;
    bool has_splits;
    RecordingTries tries = {};
    std::unique_ptr<Recording> recording;  // Null while steps of this size are launched kernel by kernel.
  };
  enum class Failed : uint8_t { kEarlyRefused, kRefused, kNoMemory };

  Step& find(const void* model, int rows, bool has_splits);
  void take();

  Runtime& runtime_;
  const bool early_launch_;
  std::deque<Step> steps_;
  Step* step_ = nullptr;  // The current step; null if the step is not captured.
  bool recording_ = false;
  std::array<bool, 3> said_{};  // Failure kinds already reported. Only the first failure of each kind is reported.
  mutable std::mutex note_mutex_;
  std::string note_;
};

}  // namespace monolith::cuda
