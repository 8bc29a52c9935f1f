// Tests that failed allocations lose no job of the queue of a text encoder.
#include <memory>
#include <new>
#include <vector>

#include "allocation_hook.h"
#include "check.h"
#include "engine/embedding/encoder_queue.h"

namespace monolith::testing {
namespace {

constexpr int kJobs = 40, kOrganizations = 5;

// Takes batches until the queue is empty, and returns the number of jobs taken. The allocation after `n` others fails.
int count_jobs(int n, bool& failed) {
  EncoderQueue queue;
  const auto channel = std::make_shared<Channel>([] {}, size_t{1} << 20);
  for (int i = 0; i < kJobs; ++i) {
    auto job = std::make_unique<EncoderJob>();
    job->channel = channel;
    job->organization = static_cast<uint64_t>(i % kOrganizations);
    job->tokens.resize(16);
    queue.add(job);
  }
  int taken = 0;
  until_failure = n;
  n_failures = 1;
  while (!queue.empty()) {
    try {
      taken += static_cast<int>(queue.take_batch(128, [](size_t tokens) { return static_cast<int>(tokens); }).size());
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  }
  until_failure = -1;
  return taken;
}

TEST(failed_allocations_lose_no_waiting_text) {
  bool failed = true;
  int n = 0;
  for (; failed; ++n) {
    failed = false;
    CHECK_EQ(count_jobs(n, failed), kJobs);
  }
  CHECK(n > 1);
}

}  // namespace
}  // namespace monolith::testing
