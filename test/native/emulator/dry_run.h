// The emulator without kernels: launches and copies cost nothing and do nothing, and what a step takes is the host's
// part alone. For a bench of that (bench/native/host_bench.cc); set before a Runtime is opened, one thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith::cuda {

struct DryRun {
  bool on = false;
  void (*answer)(void* to_host, size_t bytes) = nullptr;  // fills what would have been downloaded

  // Since reset(). Idle: from when work was waited for to the next launch; busy: from there to the next wait.
  uint64_t idle_ns = 0, busy_ns = 0, steps = 0;  // as many of each as there were waits
  uint64_t uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0, launches = 0, replays = 0;
  void reset();

  // Of the emulated Runtime.
  void note_work();
  void note_wait();

 private:
  int64_t waited_at_ = 0, worked_at_ = 0;  // 0: not so
  bool has_work_ = false;
};
DryRun& dry_run();

}  // namespace monolith::cuda
