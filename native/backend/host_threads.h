// Lends the backend's threads to host work between steps.
#pragma once

#include <cstdint>

namespace monolith {

class HostThreads {
 public:
  // Calls work(context, i, thread) for each i in [0, n) and returns when all calls are done. The calls start in
  // ascending order of i and run on up to host_threads() threads, which are numbered from 0. Intended for host work on
  // which the next step depends, such as sampling: the threads of a CPU backend are idle during that time. `work` must
  // not throw.
  using HostWork = void (*)(const void* context, int64_t i, int thread);
  virtual int host_threads() const { return 1; }
  virtual void run_on_host(int64_t n, HostWork work, const void* context) {
    for (int64_t i = 0; i < n; ++i) work(context, i, 0);
  }

 protected:
  ~HostThreads() = default;
};

}  // namespace monolith
