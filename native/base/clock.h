// What the engine reads the time from: steady, its zero of no meaning. A time that may not be noted yet is an
// std::optional, for no value of a clock says that: on a machine that has run for days, zero is days ago.
#pragma once

#include <atomic>
#include <chrono>

namespace monolith {

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept { return time_point(real() + duration(ahead_.load(std::memory_order_relaxed))); }
  // For tests: it is `now`, and goes on from there.
  static void set(time_point now) noexcept {
    ahead_.store((now.time_since_epoch() - real()).count(), std::memory_order_relaxed);
  }

 private:
  static duration real() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

  static inline std::atomic<rep> ahead_{0};  // of the machine's steady clock
};

}  // namespace monolith
