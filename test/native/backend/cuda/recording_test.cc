// Tests when CUDA graphs are captured, how device failures are reported, and how much device memory is assumed to be
// available. Does not need a device.
#include <algorithm>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/messages.h"
#include "backend/cuda/cuda_graph_cache.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

// Returns the numbers, counted from 0, of the steps in which a capture is attempted. `outcomes` are the results of the
// attempts; the last one repeats forever.
std::vector<int64_t> tried(const std::vector<RecordingOutcome>& outcomes, int64_t n_steps) {
  RecordingTries tries;
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < n_steps; ++step) {
    if (!tries.due()) continue;
    tries.note(outcomes[std::min(steps.size(), outcomes.size() - 1)]);
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST(cuda_graph_capture_is_retried_ever_less_often) {
  using enum RecordingOutcome;
  using Steps = std::vector<int64_t>;
  CHECK(tried({kNoMemory}, 600) == (Steps{1, 66, 195, 452}));
  CHECK(tried({kRefused}, 600) == (Steps{1, 2, 67, 68, 197, 198, 455, 456}));
  CHECK(tried({kRefused, kNoMemory}, 100) == (Steps{1, 2, 67}));
  const Steps many = tried({kNoMemory}, 1'000'000);
  CHECK(many.back() > 1'000'000 - RecordingTries::kLongestWait - 2);
  RecordingTries tries;
  CHECK(tries.early());
  tries.note(kNoMemory);
  CHECK(tries.early());
  tries.note(kRefused);
  CHECK(!tries.early());
}

TEST(cuda_failures_name_the_operation) {
  const Error memory = allocation_error("NVIDIA H200", 4096, true, "out of memory (cudaErrorMemoryAllocation)");
  CHECK(memory.code == ErrorCode::kOutOfMemory);
  CHECK_EQ(memory.message, "NVIDIA H200 has less than 4096 bytes free: out of memory (cudaErrorMemoryAllocation)");
  const Error fault = allocation_error("NVIDIA H200", 4096, false, "an illegal memory access was encountered");
  CHECK(fault.code == ErrorCode::kIo);
  CHECK_EQ(fault.message, "NVIDIA H200 failed to allocate 4096 bytes: an illegal memory access was encountered");
  CHECK_EQ(driver_error(0, 13'000).message, "no NVIDIA driver found on this machine");
  CHECK_EQ(driver_error(12'040, 13'000).message,
           "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs CUDA 13 (driver 580 or newer)");
  CHECK_EQ(driver_error(12'040, 14'000).message,
           "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs CUDA 14");
}

TEST(cuda_counts_memory_that_the_driver_takes) {
  constexpr size_t kMiB = size_t{1} << 20;
  const auto recording = make_cuda_backend({}), plain = make_cuda_backend({.recording = false});
  REQUIRE(recording.ok() && plain.ok());
  CHECK_EQ((*recording)->memory_of(1), size_t{512});
  CHECK_EQ((*recording)->memory_of(kMiB - 1), kMiB);
  CHECK_EQ((*recording)->memory_of(kMiB), 2 * kMiB);
  CHECK_EQ((*recording)->memory_of(4 * kMiB + 1), 6 * kMiB);
  const auto graphs = [&](int layers) {
    return (*recording)->overhead_bytes(layers) - (*plain)->overhead_bytes(layers);
  };
  CHECK(graphs(32) >= 64 * kMiB && graphs(32) <= 128 * kMiB);
  CHECK(graphs(80) > 2 * graphs(32));
}
