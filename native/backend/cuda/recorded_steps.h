// Steps of decodes, recorded once for each size and replayed from then on; and what became of recordings that failed.
// Engine thread, but for note().
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/device/runtime.h"
#include "backend/cuda/recording_tries.h"

namespace monolith::cuda {

class RecordedSteps {
 public:
  RecordedSteps(Runtime& runtime, bool early_launch) : runtime_(runtime), early_launch_(early_launch) {}

  // Rows that a step of `n_rows` decodes is filled up to; 0: so many are not recorded.
  static int padded_rows(int n_rows);
  // Sizes that there are.
  static size_t n_sizes();

  // Recordings work in scratch that is about to go.
  void forget() { steps_.clear(); }
  // Ends what a step that failed had begun.
  void drop();
  // A step begins, of `rows` decodes of one model, with attention's kernel for rows that are split, or without; rows 0:
  // of another kind. True: it is replayed when it ends, and no operation needs to be asked for.
  bool begin(const void* model, int rows, bool has_splits);
  // Replays the step or takes what was recorded of it.
  void end();
  // Of the step under way; 0: it is of another kind.
  int rows() const { return step_ ? step_->rows : 0; }
  // The first failure of each kind. Any thread.
  std::string note() const;

 private:
  struct Step {
    const void* model;
    int rows;
    bool has_splits;
    RecordingTries tries = {};
    std::unique_ptr<Recording> recording;  // null: it is computed operation by operation
  };
  enum class Failed : uint8_t { kEarlyRefused, kRefused, kNoMemory };

  Step& find(const void* model, int rows, bool has_splits);
  void take();

  Runtime& runtime_;
  const bool early_launch_;
  std::deque<Step> steps_;
  Step* step_ = nullptr;  // under way; null: of another kind
  bool recording_ = false;
  std::array<bool, 3> said_{};  // each kind once: the first says what there is to say
  mutable std::mutex note_mutex_;
  std::string note_;
};

}  // namespace monolith::cuda
