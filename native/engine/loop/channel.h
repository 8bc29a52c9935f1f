// One consumer's stream of packed event records, between the engine thread that appends once per step
// and the consumer's thread that drains. Buffers are swapped, not copied, so a steady stream allocates
// nothing.
//
// Bound: when the undrained bytes pass `bound`, full() tells the scheduler, which suspends the channel's
// sequences (their pages go back) and resumes them once it is drained. Nothing is dropped; the
// bound can be passed by what one step produces, or two where steps overlap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"

namespace monolith {

class Channel {
 public:
  Channel(std::function<void()> wake, size_t bound) : wake_(std::move(wake)), bound_(bound) {}

  // --- engine thread ---
  // Records of the running step; publish() hands them over.
  std::vector<std::byte>& step_records() { return step_records_; }
  // Moves the step's records to the consumer and wakes it if it has drained since the last wake.
  void publish();
  bool full() const { return pending_bytes_.load(std::memory_order_relaxed) > bound_; }
  // The engine has ended a forgotten request: its id no longer needs filtering.
  void remember(uint32_t request);

  // --- any thread ---
  // Swaps the pending records into `out`. Returns true if the channel was full before. `since`, where there is any
  // record: when the first of them was published.
  bool drain(std::vector<std::byte>& out, Clock::time_point* since = nullptr);
  // From here on no record of `request` reaches the consumer.
  void forget(uint32_t request);
  // The same for one that has ended, all of whose records have been published.
  void discard(uint32_t request);
  // No wake after return.
  void close();

 private:
  static void remove_records(std::vector<std::byte>& records, std::span<const uint32_t> requests);
  void remove_pending(uint32_t request);

  std::vector<std::byte> step_records_;  // engine thread only
  std::mutex mutex_;                     // guards what follows
  std::function<void()> wake_;
  std::vector<std::byte> pending_;
  Clock::time_point pending_since_;  // while any is pending
  std::vector<uint32_t> forgotten_;  // cancelled, and not yet ended by the engine
  bool signalled_ = false;           // wake was called and the consumer has not drained since
  bool closed_ = false;
  const size_t bound_;
  std::atomic<size_t> pending_bytes_{0};
};

}  // namespace monolith
