#include "engine/loop/engine_counters.h"

#include <algorithm>

namespace monolith {

EngineStats EngineCounters::snapshot(Clock::time_point now) const {
  const auto get = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  EngineStats stats;
  stats.waiting = queue.requests();
  stats.waiting_tokens = queue.tokens();
  stats.queue_max = queue.max_requests();
  stats.queue_max_tokens = queue.max_tokens();
  stats.running = get(running);
  stats.pages_total = get(pages_total);
  stats.pages_free = get(pages_free);
  stats.pages_cached = get(pages_cached);
  stats.kv_used_bytes = get(kv_used_bytes);
  if (const int64_t progress = get(progress_at_ns); progress != kIdle)
    stats.last_step_age_ms =
        static_cast<double>(std::max<int64_t>(0, now.time_since_epoch().count() - progress)) * 1e-6;
  stats.max_batch_tokens = get(max_batch_tokens);
  stats.max_sequences = get(max_sequences);
  stats.step_ms = get(step_ms);
  stats.loaded_batch_tokens = get(loaded_batch_tokens);
  stats.batch_tokens_limit = get(batch_tokens_limit);
  stats.sequences_limit = get(sequences_limit);
  stats.failed = get(failed);
  stats.steps = get(steps);
  stats.step_rows = get(step_rows);
  stats.prefill_tokens = get(prefill_tokens);
  stats.decode_tokens = get(decode_tokens);
  stats.cached_tokens = get(cached_tokens);
  stats.prompt_tokens = get(prompt_tokens);
  stats.prompt_tokens_cached = get(prompt_tokens_cached);
  stats.draft_tokens = get(draft_tokens);
  stats.accepted_draft_tokens = get(accepted_draft_tokens);
  stats.drafter_tokens = get(drafter_tokens);
  stats.accepted_drafter_tokens = get(accepted_drafter_tokens);
  stats.image_pieces = get(image_pieces);
  stats.image_pieces_cached = get(image_pieces_cached);
  stats.requests = get(requests);
  stats.finished = get(finished);
  stats.failed_requests = get(failed_requests);
  stats.preemptions = get(preemptions);
  stats.cancelled_queued = get(cancelled_queued);
  stats.cancelled_prefill = get(cancelled_prefill);
  stats.cancelled_decode = get(cancelled_decode);
  stats.pages_exported = get(pages_exported);
  stats.pages_imported = get(pages_imported);
  stats.exports_skipped = get(exports_skipped);
  stats.exports_pending = get(exports_pending);
  stats.step_seconds = static_cast<double>(get(step_ns)) * 1e-9;
  stats.prompt_step_seconds = static_cast<double>(get(prompt_step_ns)) * 1e-9;
  stats.prompt_step_rows = get(prompt_step_rows);
  return stats;
}

}  // namespace monolith
