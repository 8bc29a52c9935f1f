// The simulation's clock. During a simulation, every read of the monotonic clock in this program returns the simulated
// time. Single-threaded.
#pragma once

#include <cstdint>

namespace monolith::simulation {

class SimClock {
 public:
  // Stops the clock at this time.
  static void set(int64_t ns) { now_ns_ = ns, stopped_ = true; }
  static void advance(int64_t ns) { now_ns_ += ns; }
  static int64_t now() { return now_ns_; }
  static bool stopped() { return stopped_; }

 private:
  static inline int64_t now_ns_ = 0;
  static inline bool stopped_ = false;
};

}  // namespace monolith::simulation
