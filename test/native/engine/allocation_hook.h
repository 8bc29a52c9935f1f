// Counts allocations in this test executable and can make them fail. The replaced operator new is in
// step_allocation_test.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace monolith::testing {

extern std::atomic<bool> counting;  // Counts in all threads, including the backend's workers.
extern std::atomic<int> allocations;
extern std::atomic<int64_t> allocated_bytes;
// Number of allocations on this thread that still succeed before one fails; negative = no allocation fails.
extern thread_local int until_failure;
extern thread_local int n_failures;  // Number of allocations that fail in a row, usually 1.

// While an object of this class exists, allocations on this thread do not fail.
class WithoutFailures {
 public:
  WithoutFailures() : until_failure_(std::exchange(until_failure, -1)) {}
  ~WithoutFailures() { until_failure = until_failure_; }
  WithoutFailures(const WithoutFailures&) = delete;
  WithoutFailures& operator=(const WithoutFailures&) = delete;

 private:
  const int until_failure_;
};

}  // namespace monolith::testing
