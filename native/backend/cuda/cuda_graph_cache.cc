#include "backend/cuda/cuda_graph_cache.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace monolith::cuda {
namespace {

// Batch sizes that are captured. A step of n tokens uses the first size that is not smaller than n.
constexpr int kRecordedRows[] = {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};

}  // namespace

int CudaGraphCache::padded_rows(int n_rows) {
  const auto* const at = std::ranges::lower_bound(kRecordedRows, n_rows);
  return at == std::end(kRecordedRows) ? 0 : *at;
}

size_t CudaGraphCache::n_sizes() { return std::size(kRecordedRows); }

void CudaGraphCache::drop() {
  if (std::exchange(recording_, false)) static_cast<void>(runtime_.end_recording());
  step_ = nullptr;
}

bool CudaGraphCache::begin(const void* model, int rows, bool has_splits) {
  step_ = rows > 0 ? &find(model, rows, has_splits) : nullptr;
  if (!step_) return false;
  if (step_->recording) return true;
  if (step_->tries.due()) {
    recording_ = true;
    runtime_.begin_recording(step_->tries.early());
  }
  return false;
}

void CudaGraphCache::end() {
  if (std::exchange(recording_, false))
    take();  // The step ran while it was captured.
  else if (step_ && step_->recording)
    runtime_.play(*step_->recording);
  step_ = nullptr;
}

std::string CudaGraphCache::note() const {
  const std::lock_guard lock(note_mutex_);
  return note_;
}

CudaGraphCache::Step& CudaGraphCache::find(const void* model, int rows, bool has_splits) {
  for (Step& step : steps_)
    if (step.model == model && step.rows == rows && step.has_splits == has_splits) return step;
  return steps_.emplace_back(Step{.model = model, .rows = rows, .has_splits = has_splits, .recording = nullptr});
}

void CudaGraphCache::take() {
  auto recording = runtime_.end_recording();
  if (recording) {
    step_->recording = std::move(*recording);
    step_->tries.note(RecordingOutcome::kRecorded);
    return;
  }
  const bool is_memory = recording.error().code == ErrorCode::kOutOfMemory;
  const bool was_early = early_launch_ && step_->tries.early();
  step_->tries.note(is_memory ? RecordingOutcome::kNoMemory : RecordingOutcome::kRefused);
  const Failed kind = is_memory ? Failed::kNoMemory : was_early ? Failed::kEarlyRefused : Failed::kRefused;
  if (std::exchange(said_[static_cast<size_t>(kind)], true)) return;
  constexpr std::string_view kWhat[] = {
      "capture failed with programmatic dependent launch, retrying without it",
      "capture failed, launching kernel by kernel and retrying later",
      "not enough memory for the capture, launching kernel by kernel and retrying later"};
  const std::lock_guard lock(note_mutex_);
  if (!note_.empty()) note_ += "; ";
  note_ += "CUDA graph of " + std::to_string(step_->rows) +
           " tokens: " + std::string(kWhat[static_cast<size_t>(kind)]) + " (" + recording.error().message + ")";
}

}  // namespace monolith::cuda
