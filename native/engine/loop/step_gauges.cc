#include "engine/loop/step_gauges.h"

#include <algorithm>

namespace monolith {
namespace {

// A step is used to measure the time per prompt token if it has at least this many tokens in addition to one per
// decoding sequence. In steps with fewer prompt tokens, the decodes distort the measurement, because computing one
// decode takes several times as long as computing one prompt token.
constexpr int kPromptStepRows = 64;

}  // namespace

void StepGauges::note_added(size_t prompt_tokens) {
  ++waiting_seen_;
  waiting_tokens_seen_ += prompt_tokens;
}

void StepGauges::note_step(const StepPlan& plan, Clock::duration duration) {
  EngineCounters::add(counters_.steps, 1);
  const auto rows = static_cast<uint64_t>(plan.n_rows), ns = static_cast<uint64_t>(duration.count());
  EngineCounters::add(counters_.step_rows, rows);
  EngineCounters::add(counters_.step_ns, ns);
  if (plan.n_rows - plan.n_decodes < std::min(kPromptStepRows, scheduler_.max_batch_tokens() / 2)) return;
  EngineCounters::add(counters_.prompt_step_rows, rows);
  EngineCounters::add(counters_.prompt_step_ns, ns);
}

void StepGauges::note_progress(Clock::time_point now, bool idle) {
  if (idle)
    counters_.note_idle();
  else
    counters_.note_progress(now);
}

void StepGauges::note_limits() {
  counters_.batch_tokens_limit.store(scheduler_.batch_tokens_limit(), std::memory_order_relaxed);
  counters_.sequences_limit.store(scheduler_.sequences_limit(), std::memory_order_relaxed);
  counters_.max_batch_tokens.store(scheduler_.max_batch_tokens(), std::memory_order_relaxed);
  counters_.max_sequences.store(scheduler_.max_sequences(), std::memory_order_relaxed);
}

void StepGauges::update() {
  const size_t waiting = scheduler_.waiting(), tokens = scheduler_.waiting_tokens();
  counters_.queue.give_back(waiting_seen_ - waiting, waiting_tokens_seen_ - tokens);
  waiting_seen_ = waiting;
  waiting_tokens_seen_ = tokens;
  counters_.running.store(static_cast<int>(scheduler_.running().size()), std::memory_order_relaxed);
  counters_.pages_total.store(pages_.size(), std::memory_order_relaxed);
  counters_.pages_free.store(pages_.free(), std::memory_order_relaxed);
  counters_.pages_cached.store(pages_.cached(), std::memory_order_relaxed);
  if (pages_.touched() != touched_seen_) {
    touched_seen_ = pages_.touched();
    const size_t used = kv_.bytes_of_first(touched_seen_);
    unused_kv_.set(kv_.bytes - used);
    counters_.kv_used_bytes.store(used, std::memory_order_relaxed);
  }
  counters_.preemptions.store(scheduler_.preemptions(), std::memory_order_relaxed);
  counters_.cached_tokens.store(scheduler_.cached_tokens(), std::memory_order_relaxed);
}

}  // namespace monolith
