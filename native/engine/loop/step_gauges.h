// Updates EngineCounters from the step loop's state: queue limits, running sequences, pages, progress. Engine thread
// only; other threads read the counters.
#pragma once

#include "backend/kv_cache.h"
#include "base/machine_memory.h"
#include "engine/loop/engine_counters.h"
#include "engine/schedule/scheduler.h"

namespace monolith {

class StepGauges {
 public:
  StepGauges(EngineCounters& counters, const Scheduler& scheduler, const PagePool& pages, const KvCache& kv)
      : counters_(counters), scheduler_(scheduler), pages_(pages), kv_(kv) {}

  // Call when a request has been passed to the scheduler. Its share of the queue limits is released when it leaves the
  // waiting queue.
  void note_added(size_t prompt_tokens);
  void note_step(const StepPlan& plan, Clock::duration duration);
  void note_progress(Clock::time_point now, bool idle);
  void note_limits();
  // Updates all gauges: the values that reflect the current state, as opposed to counters.
  void update();

 private:
  EngineCounters& counters_;
  const Scheduler& scheduler_;
  const PagePool& pages_;
  const KvCache& kv_;
  MemoryClaim unused_kv_;                              // Memory of pages that have never been used.
  int64_t touched_seen_ = -1;                          // Value of pages_.touched() at the last update.
  size_t waiting_seen_ = 0, waiting_tokens_seen_ = 0;  // Contents of the waiting queue at the last update.
};

}  // namespace monolith
