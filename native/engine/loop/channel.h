// One consumer's stream of event records: the engine thread appends once per step, and the consumer's thread drains.
// Buffers are swapped, not copied, so a steady stream allocates nothing. After a burst, large buffers are released.
//
// Backpressure: when more than `bound` bytes are undrained, full() makes the scheduler preempt the channel's sequences,
// which releases their pages. They resume after the channel is drained. No record is dropped. The bound can be exceeded
// by the records of one step, or of two with overlapping steps.
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
  // Buffers of up to this capacity, in bytes, are always kept. Larger buffers are released if less than an eighth was
  // used.
  static constexpr size_t kKeptCapacity = size_t{1} << 20;

  Channel(std::function<void()> wake, size_t bound) : wake_(std::move(wake)), bound_(bound) {}

  // --- Engine thread only ---
  // Records of the current step; publish() passes them to the consumer.
  std::vector<std::byte>& step_records() { return step_records_; }
  // Moves the step's records to the consumer, and wakes the consumer if it has drained the channel since the last
  // wake-up. Returns false if there is not enough memory; the records are then kept, and the call must be repeated.
  bool publish();
  bool full() const { return pending_bytes_.load(std::memory_order_relaxed) > bound_; }
  // Unmutes a request that the engine has ended: there will be no more records with its id to filter out.
  void remember(uint32_t request);

  // --- Any thread ---

  // Swaps the pending records into `out`; the channel reuses the previous buffer of `out`. Returns true if the channel
  // was full before. If there are records, `since` is set to the time when the first of them was published.
  bool drain(std::vector<std::byte>& out, Clock::time_point* since = nullptr);
  // Mutes a request: after this call, none of its records reach the consumer.
  void forget(uint32_t request);
  // Removes the undrained records of a request that has ended and whose records have all been published.
  void discard(uint32_t request);
  // `wake` is not called after this function has returned.
  void close();

 private:
  static void remove_records(std::vector<std::byte>& records, std::span<const uint32_t> requests);
  void remove_pending(uint32_t request);

  std::vector<std::byte> step_records_;  // Used by the engine thread only.
  std::mutex mutex_;                     // Guards the members below.
  std::function<void()> wake_;
  std::vector<std::byte> pending_;
  Clock::time_point pending_since_;  // Publication time of the first pending record; valid only if there is one.
  std::vector<uint32_t> forgotten_;  // Requests that were muted and that the engine has not ended yet.
  bool signalled_ = false;           // `wake` was called, and the consumer has not drained since.
  bool closed_ = false;
  const size_t bound_;
  std::atomic<size_t> pending_bytes_{0};
};

}  // namespace monolith
