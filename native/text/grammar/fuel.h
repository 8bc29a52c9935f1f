// The budget of a computation: a number of steps, a deadline in the CPU time of the computing thread, and a
// cancellation flag. Other threads may access only the flag.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace monolith::grammar {

class Fuel {
 public:
  Fuel() = default;
  // `deadline` is a time on the clock of thread_time().
  explicit Fuel(uint64_t steps, int64_t deadline = INT64_MAX, const std::atomic<bool>* cancelled = nullptr)
      : steps_(steps), deadline_(deadline), cancelled_(cancelled) {}

  uint64_t left() const { return steps_; }
  // Returns a copy limited to at most `steps` steps.
  Fuel within(uint64_t steps) const {
    Fuel fuel = *this;
    fuel.steps_ = std::min(steps_, steps);
    return fuel;
  }
  // Returns a copy that is cancelled when `flag` is set.
  Fuel until(const std::atomic<bool>& flag) const {
    Fuel fuel = *this;
    fuel.cancelled_ = &flag;
    return fuel;
  }

  // CPU time of the calling thread, in nanoseconds. Unlike wall time, it does not advance while other processes use the
  // CPU, so load on the machine does not cut a computation short.
  static int64_t thread_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  // Returns false once the budget is used up, and on every later call.
  bool spend(uint64_t steps = 1) {
    if (stopped_) return false;
    if (steps > steps_) {
      stopped_ = true;
      steps_ = 0;
      return false;
    }
    steps_ -= steps;
    until_look_ -= static_cast<int64_t>(std::min<uint64_t>(steps, kLook));
    if (until_look_ > 0) return true;
    until_look_ = kLook;
    if ((cancelled_ && cancelled_->load(std::memory_order_relaxed)) ||
        (deadline_ != INT64_MAX && thread_time() >= deadline_))
      stopped_ = true;  // `steps_` keeps its value so that left() still shows how much was spent.
    return !stopped_;
  }

 private:
  static constexpr int64_t kLook = 512;  // Number of steps between checks of the clock and the flag.

  uint64_t steps_ = UINT64_MAX;
  int64_t deadline_ = INT64_MAX;
  const std::atomic<bool>* cancelled_ = nullptr;
  int64_t until_look_ = kLook;
  bool stopped_ = false;
};

}  // namespace monolith::grammar
