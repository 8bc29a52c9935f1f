// A backend's role of choosing tokens where the logits are: what sampling.h asks for.
#pragma once

#include <span>

#include "backend/sampling.h"
#include "base/result.h"

namespace monolith {

class DeviceSampling {
 public:
  // Whether sample() may be called for rows of `n_vocab` logits. If not, the host samples them.
  virtual bool can_sample(int n_vocab) const {
    static_cast<void>(n_vocab);
    return false;
  }
  // Allocates what sample() needs for rows of `n_vocab` logits, `most_tasks` of them at a time: more are no error, but
  // may take longer. Errors: kOutOfMemory.
  virtual Status reserve_samples(int n_vocab, int most_tasks) {
    static_cast<void>(n_vocab), static_cast<void>(most_tasks);
    return Error{ErrorCode::kUnsupported, "this backend does not sample"};
  }
  // results[i] = the answer to tasks[i] (sampling.h), whose logits are this backend's memory.
  virtual void sample(int n_vocab, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
    static_cast<void>(n_vocab), static_cast<void>(tasks), static_cast<void>(results);
  }
  // The same in two parts: the first may return before anything is computed, the second, with the same tasks, waits for
  // the answers. Nothing else is sampled in between; whoever begins anew, or calls sample(), gives up what was begun.
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
