// The standard library's std::chrono::steady_clock calls clock_gettime(). This definition takes precedence over that of
// the C library.
#include "simulation/sim_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

using monolith::simulation::SimClock;

extern "C" int clock_gettime(clockid_t clock, struct timespec* into) noexcept {
  if (clock != CLOCK_MONOTONIC || !SimClock::stopped())
    return static_cast<int>(syscall(SYS_clock_gettime, clock, into));
  into->tv_sec = SimClock::now() / 1'000'000'000;
  into->tv_nsec = SimClock::now() % 1'000'000'000;
  return 0;
}
