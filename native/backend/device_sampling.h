// The backend's sampling role: choosing tokens on the device that stores the logits, as specified in sampling.h.
#pragma once

#include <span>

#include "backend/sampling.h"
#include "base/result.h"

namespace monolith {

class DeviceSampling {
 public:
  // Whether sample() supports rows of `n_vocab` logits. If not, these rows are sampled on the host.
  virtual bool can_sample(int n_vocab) const {
    static_cast<void>(n_vocab);
    return false;
  }
  // Allocates the memory that sample() needs for `most_tasks` concurrent rows of `n_vocab` logits. A call with more
  // rows is allowed but may be slower. Errors: kOutOfMemory.
  virtual Status reserve_samples(int n_vocab, int most_tasks) {
    static_cast<void>(n_vocab), static_cast<void>(most_tasks);
    return Error{ErrorCode::kUnsupported, "this backend does not support sampling"};
  }
  // Stores the result of tasks[i] in results[i] (see sampling.h). The tasks' logits are in this backend's memory.
  virtual void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
    static_cast<void>(n_vocab), static_cast<void>(tasks), static_cast<void>(results);
  }
  // begin_sample() and end_sample() do the work of sample() in two steps. begin_sample() may return before anything is
  // computed. end_sample(), called with the same tasks and without other sampling in between, waits for the results.
  // Calling begin_sample() again, or sample(), discards the pending results.
  virtual void begin_sample(int n_vocab, std::span<const SampleTask> tasks) {
    static_cast<void>(n_vocab), static_cast<void>(tasks);
  }
  virtual void end_sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
    sample(n_vocab, tasks, results);
  }

 protected:
  ~DeviceSampling() = default;
};

}  // namespace monolith
