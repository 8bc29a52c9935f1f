// Runtime on top of the emulator; device memory is host memory. Work is deferred until synchronize(), as on a real
// device. A test therefore fails if the code reads results too early or overwrites the source of a pending copy.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "emulator/runtime_emulated.h"
#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr size_t kTouched = size_t{1} << 20;  // In a dry run, larger allocations are not zeroed.

struct EmulatedRecording final : Recording {
  std::vector<std::function<void()>> work;
};

struct EmulatedEvent final : Event {
  uint64_t done = 0;  // Number of work items to complete before the event is complete.
};

class EmulatedRuntime final : public Runtime {
 public:
  EmulatedRuntime() {
    properties_ = {.name = "emulated GPU",
                   .major = 9,
                   .minor = 0,
                   .multiprocessors = 4,
                   .memory_bytes = size_t{4} << 30,
                   .l2_bytes = 1 << 20,
                   .shared_bytes = 227 << 10,
                   .driver = "none"};
  }
  EmulatedRuntime(const EmulatedRuntime&) = delete;
  EmulatedRuntime& operator=(const EmulatedRuntime&) = delete;
  ~EmulatedRuntime() override {
    queue_.clear();
    while (!memory_.empty()) free(memory_.back());
  }

  size_t free_bytes() const override { return size_t{4} << 30; }

  Result<void*> allocate(size_t bytes) override {
    void* memory = ::operator new(std::max<size_t>(bytes, 1), kAlignment, std::nothrow);
    if (!memory) return Error{ErrorCode::kOutOfMemory, "no " + std::to_string(bytes) + " bytes left"};
    memory_.push_back(memory);
    if (!dry_run().on || bytes <= kTouched) std::memset(memory, 0, bytes);
    return memory;
  }
  Result<void*> allocate_pinned(size_t bytes) override { return allocate(bytes); }
  void free(void* memory) override {
    if (std::erase(memory_, memory) == 0) return;
    drain();
    ::operator delete(memory, kAlignment);
  }
  void free_pinned(void* memory) override { free(memory); }

  void upload(void* to, const void* from_host, size_t bytes) override {
    if (DryRun& dry = dry_run(); dry.on) {
      ++dry.uploads;
      dry.upload_bytes += bytes;
      return;
    }
    queue_.push_back([=] { std::memcpy(to, from_host, bytes); });
  }
  void download(void* to_host, const void* from, size_t bytes) override {
    if (DryRun& dry = dry_run(); dry.on) {
      ++dry.downloads;
      dry.download_bytes += bytes;
      if (dry.answer) dry.answer(to_host, bytes);
      return;
    }
    queue_.push_back([=] { std::memcpy(to_host, from, bytes); });
  }
  void copy(void* to, const void* from, size_t bytes) override {
    perform([=] { std::memcpy(to, from, bytes); });
  }
  void fill(void* to, int byte, size_t bytes) override {
    perform([=] { std::memset(to, byte, bytes); });
  }
  void synchronize() override {
    dry_run().note_wait();
    drain();
  }
  Result<std::unique_ptr<Event>> make_event() override {
    return std::unique_ptr<Event>(std::make_unique<EmulatedEvent>());
  }
  void record(Event& event) override { static_cast<EmulatedEvent&>(event).done = done_ + queue_.size(); }
  void wait(Event& event) override { drain_to(static_cast<EmulatedEvent&>(event).done); }

  void set_early_launch(bool) override {}
  void settle() override {}
  // This work runs immediately and is never recorded.
  void make_current() override {}
  bool use_stream(const std::function<bool(void*)>& work) override {
    drain();
    recording_.reset();
    return work(nullptr);
  }

  void begin_recording(bool early) override {
    recording_ = std::make_unique<EmulatedRecording>();
    records_early_ = early;
  }
  Result<std::unique_ptr<Recording>> end_recording() override {
    std::unique_ptr<Recording> recording = std::move(recording_);
    if (faults().recording) {
      if (std::optional<Error> failure = faults().recording(records_early_)) return *std::move(failure);
    }
    if (!recording) return Error{ErrorCode::kUnsupported, "a library's work"};
    return recording;
  }
  void play(Recording& recording) override {
    if (DryRun& dry = dry_run(); dry.on) {
      ++dry.replays;
      dry.note_work();
      return;
    }
    const auto& work = static_cast<EmulatedRecording&>(recording).work;
    queue_.insert(queue_.end(), work.begin(), work.end());
  }

  void perform(std::function<void()> work) {
    if (dry_run().on) return;
    if (recording_) recording_->work.push_back(work);
    queue_.push_back(std::move(work));
  }

 private:
  void drain() { drain_to(done_ + queue_.size()); }
  void drain_to(uint64_t end) {
    for (; done_ < end; ++done_) {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      work();
    }
  }

  std::vector<void*> memory_;
  std::unique_ptr<EmulatedRecording> recording_;  // Null if no recording is in progress.
  bool records_early_ = false;
  std::deque<std::function<void()>> queue_;  // Deferred work items, in stream order.
  uint64_t done_ = 0;                        // Number of work items completed since the start.
};

}  // namespace

namespace {
int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}
}  // namespace

Faults& faults() {
  static Faults wanted;
  return wanted;
}

DryRun& dry_run() {
  static DryRun run;
  return run;
}

void DryRun::reset() {
  DryRun fresh;
  fresh.on = on;
  fresh.answer = answer;
  *this = fresh;
}

void DryRun::note_work() {
  has_work_ = true;
  if (waited_at_ == 0) return;
  worked_at_ = now_ns();
  idle_ns += static_cast<uint64_t>(worked_at_ - std::exchange(waited_at_, 0));
}

void DryRun::note_wait() {
  if (!on || !std::exchange(has_work_, false)) return;
  waited_at_ = now_ns();
  if (worked_at_ == 0) return;
  busy_ns += static_cast<uint64_t>(waited_at_ - std::exchange(worked_at_, 0));
  ++steps;
}

Result<std::vector<DeviceProperties>> list_devices() { return std::vector{EmulatedRuntime().device()}; }

Result<std::unique_ptr<Runtime>> Runtime::open(int device) {
  if (device != 0)
    return Error{ErrorCode::kInvalidArgument, "there is no GPU " + std::to_string(device) + ": the emulator is one"};
  return std::unique_ptr<Runtime>(std::make_unique<EmulatedRuntime>());
}

void launch_emulated(Runtime& runtime, std::function<void()> kernel, dim3 grid, int threads, size_t shared_bytes) {
  if (DryRun& dry = dry_run(); dry.on) {
    ++dry.launches;
    dry.note_work();
    return;
  }
  static_cast<EmulatedRuntime&>(runtime).perform([kernel = std::move(kernel), grid, threads, shared_bytes] {
    emulator::run(kernel, grid, threads, shared_bytes);
  });
}

}  // namespace monolith::cuda
