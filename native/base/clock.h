// The engine's clock: monotonic, with an arbitrary zero point. A time that may be unset must be a std::optional,
// because no value is reserved: zero is an ordinary time.
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
  // For tests: sets the current time. The clock continues from there.
  static void set(time_point now) noexcept {
    ahead_.store((now.time_since_epoch() - real()).count(), std::memory_order_relaxed);
  }

 private:
  static duration real() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

  static inline std::atomic<rep> ahead_{0};  // Offset from the machine's steady clock.
};

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace monolith
