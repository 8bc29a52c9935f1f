// Chooses the tokens of many rows of logits at once: on the backend where it samples, else on the host's threads, each
// with a sampler of its own. What is chosen for a row depends on its task alone, so nobody can tell which.
//
// Rows behind guesses hang together: what a row says of the third guess is of no use if the second is wrong. They are
// taken up in the order in which they were added, and none any more once an earlier one of its chain has departed.
// Engine thread only, but for what run() shares out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/device_sampling.h"
#include "backend/host_threads.h"
#include "engine/sampling/sampler.h"

namespace monolith {

class BatchSampler {
 public:
  // Of one backend both. Rows of `n_vocab` logits, in its memory if samples_on_backend(), else in the host's. Up to `most_tasks`
  // without allocating. Throws std::bad_alloc if the backend has no memory for its part.
  BatchSampler(DeviceSampling& device, HostThreads& host, int n_vocab, int most_tasks);

  bool samples_on_backend() const { return on_backend_; }
  int n_vocab() const { return n_vocab_; }

  void clear();
  // Returns the task's number. What it refers to must stay as it is until it has run.
  int add(const SampleTask& task);
  // A row of use only if `row`, the number of the one before it, gives `guess`.
  int add_behind(int row, TokenId guess, const SampleTask& task);
  // Where the backend samples: has it begin with what was added, without waiting. Nothing may be added before run().
  void begin();
  // All tasks that were added since the last run().
  void run();
  // Null if it was left out because an earlier row of its chain has departed. Valid until the next add or clear().
  const SampleResult* result(int task) const;

  // One task by itself. Valid until the next call.
  const SampleResult& sample(const SampleTask& task);

 private:
  struct Link {
    int head;       // first task of its chain
    int depth;      // rows before it in the chain
    TokenId guess;  // that a row behind it takes for granted; kNoToken: none does
  };
  int place(const SampleTask& task, const Link& link);
  void sample_one(size_t task, int thread);

  DeviceSampling& device_;
  HostThreads& host_;
  const int n_vocab_;
  const bool on_backend_;
  std::vector<Sampler> samplers_;  // one for each thread; none if the backend samples
  std::vector<SampleTask> tasks_;
  std::vector<Link> links_;                       // parallel to tasks_
  std::vector<SampleResult> results_;             // places for results: as many as there may be tasks
  std::vector<uint8_t> known_;                    // parallel to results_
  std::unique_ptr<std::atomic<int>[]> departed_;  // by head: the least depth at which its chain is known to depart
  size_t n_run_ = 0;                              // tasks of earlier runs
  bool has_begun_ = false;                        // with those behind them
  SampleResult single_;
};

}  // namespace monolith
