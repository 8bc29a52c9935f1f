// Samples tokens from many logit rows together: on the device if it supports sampling, otherwise on the host threads,
// each with its own Sampler. The result for a row depends only on its task, not on where it is computed.
//
// The rows that follow a sequence's draft tokens form a chain: if a draft token is rejected, all later rows of the
// chain are useless. Rows are processed in insertion order. On the host, once a draft token has been rejected, the
// later rows of its chain are skipped. Engine thread only, except for the work that run() distributes to host threads.
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
  // `device` and `host` must belong to the same backend. Rows have `n_vocab` logits, in device memory if
  // samples_on_backend(), otherwise in host memory. Adding up to `most_tasks` tasks does not allocate. Throws
  // std::bad_alloc if the device runs out of memory.
  BatchSampler(DeviceSampling& device, HostThreads& host, int n_vocab, int most_tasks);

  bool samples_on_backend() const { return on_backend_; }
  int n_vocab() const { return n_vocab_; }

  void clear();
  // Adds a task and returns its index. Everything the task points to must stay unchanged until the task has run.
  int add(const SampleTask& task);
  // Adds a row that is needed only if the previous row of the chain, whose task index is `row`, samples the draft token
  // `draft`.
  int add_behind(int row, TokenId draft, const SampleTask& task);
  // Starts the added tasks on the device without waiting for them. No tasks may be added between begin() and run().
  // Does nothing if sampling runs on the host.
  void begin();
  // Runs all tasks added since the last run().
  void run();
  // Returns null if the task was skipped because an earlier draft token of its chain was rejected. The result is valid
  // until the next add() or clear().
  const SampleResult* result(int task) const;

  // Runs a single task immediately. The result is valid until the next call to sample().
  const SampleResult& sample(const SampleTask& task);

 private:
  struct Link {
    int head;       // Index of the first task of the chain.
    int depth;      // Number of earlier rows in the chain.
    TokenId draft;  // Draft token that the next row of the chain assumes; kNoToken if there is no next row.
  };
  int place(const SampleTask& task, const Link& link);
  void sample_one(size_t task, int thread);

  DeviceSampling& device_;
  HostThreads& host_;
  const int n_vocab_;
  const bool on_backend_;
  std::vector<Sampler> samplers_;  // One per host thread; empty if the device samples.
  std::vector<SampleTask> tasks_;
  std::vector<Link> links_;            // Chain data of each task in tasks_.
  std::vector<SampleResult> results_;  // At least one entry per task.
  std::vector<uint8_t> known_;         // One flag per entry of results_: 1 if the task has run.
  // Indexed by a chain's `head`: the smallest depth at which one of the chain's draft tokens was rejected.
  std::unique_ptr<std::atomic<int>[]> departed_;
  size_t n_run_ = 0;        // Number of tasks run so far, since clear().
  bool has_begun_ = false;  // The device has started the tasks from index n_run_ on.
  SampleResult single_;
};

}  // namespace monolith
