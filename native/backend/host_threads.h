// A backend's threads, lent to the host's own work between steps.
#pragma once

#include <cstdint>

namespace monolith {

class HostThreads {
 public:
  // Calls work(context, i, thread) for 0 <= i < n, begun in this order, on up to host_threads() threads with as many
  // `thread` numbers from 0, and returns when all are done. For work of the host's own that the next step waits for,
  // like sampling: the threads of a backend that computes on the host lie idle then. `work` may not throw.
  using HostWork = void (*)(const void* context, int64_t i, int thread);
  virtual int host_threads() const { return 1; }
  virtual void run_on_host(int64_t n, HostWork work, const void* context) {
    for (int64_t i = 0; i < n; ++i) work(context, i, 0);
  }

 protected:
  ~HostThreads() = default;
};

}  // namespace monolith
