// Controls of the emulated device, for tests and benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"

namespace monolith::cuda {

// Faults that tests inject into the emulated device. On a real device, they have no effect.
struct Faults {
  // Called at the end of each graph capture. If it returns an error, the capture fails. If not set, captures always
  // succeed.
  std::function<std::optional<Error>(bool early)> recording;
};
Faults& faults();

// Dry-run mode of the CUDA emulator: launches and copies do nothing and cost nothing, so the time of a step is only the
// time of the host's work. bench/native/host_bench.cc uses this mode to measure host overhead. Must be set before a
// Runtime is opened. Single-threaded.
struct DryRun {
  bool on = false;
  void (*answer)(void* to_host, size_t bytes) = nullptr;  // Fills the host buffer in place of a download.

  // Totals since reset(). Idle time is the time from each wait for the device to the next launch. Busy time is the time
  // from that launch to the next wait.
  uint64_t idle_ns = 0, busy_ns = 0, steps = 0;  // `steps` counts the waits; each has one idle and one busy interval.
  uint64_t uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0, launches = 0, replays = 0;
  void reset();

  // Called by the emulated Runtime for each launch and each wait.
  void note_work();
  void note_wait();

 private:
  int64_t waited_at_ = 0, worked_at_ = 0;  // Start of the current interval in nanoseconds; 0 = not in that interval.
  bool has_work_ = false;
};
DryRun& dry_run();

}  // namespace monolith::cuda
