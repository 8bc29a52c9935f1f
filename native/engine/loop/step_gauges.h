// What the loop tells EngineCounters of its state: the queue's room, running sequences, pages, progress. Engine thread
// only; others read the counters.
#pragma once

#include "backend/kv_cache.h"
#include "base/memory_claim.h"
#include "engine/loop/engine_counters.h"
#include "engine/schedule/scheduler.h"

namespace monolith {

class StepGauges {
 public:
  StepGauges(EngineCounters& counters, const Scheduler& scheduler, const PagePool& pages, const KvCache& kv)
      : counters_(counters), scheduler_(scheduler), pages_(pages), kv_(kv) {}

  // A request with a prompt of so many tokens was handed to the scheduler: its room in the queue is given back when it
  // does not wait there any more.
  void note_added(size_t prompt_tokens);
  void note_step(const StepPlan& plan, Clock::duration duration);
  void note_progress(Clock::time_point now, bool idle);
  void note_limits();
  // Everything that is looked up rather than counted.
  void update();

 private:
  EngineCounters& counters_;
  const Scheduler& scheduler_;
  const PagePool& pages_;
  const KvCache& kv_;
  MemoryClaim unused_kv_;                              // of pages that were never used
  int64_t touched_seen_ = -1;                          // of pages_
  size_t waiting_seen_ = 0, waiting_tokens_seen_ = 0;  // of counters_.queue
};

}  // namespace monolith
