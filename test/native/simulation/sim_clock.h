// The machine's clock as the simulation turns it: while it runs, whoever in this program asks for the monotonic time is
// told this one. One thread.
#pragma once

#include <cstdint>

namespace monolith::simulation {

class SimClock {
 public:
  // Stopped at this time from here on.
  static void set(int64_t ns) { now_ns_ = ns, stopped_ = true; }
  static void advance(int64_t ns) { now_ns_ += ns; }
  static int64_t now() { return now_ns_; }
  static bool stopped() { return stopped_; }

 private:
  static inline int64_t now_ns_ = 0;
  static inline bool stopped_ = false;
};

}  // namespace monolith::simulation
