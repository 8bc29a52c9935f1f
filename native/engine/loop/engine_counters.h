// The engine's statistics, which the engine thread writes and any thread may read. All accesses are relaxed: each
// number is correct on its own, but a snapshot may mix values from different moments.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/schedule/queue_room.h"

namespace monolith {

class EngineCounters {
 public:
  QueueRoom queue;  // Requests that were submitted and have neither started nor ended.
  std::atomic<int> running{0};
  std::atomic<int64_t> pages_total{0}, pages_free{0}, pages_cached{0};
  std::atomic<uint64_t> kv_used_bytes{0};
  static constexpr int64_t kIdle = std::numeric_limits<int64_t>::min();
  // Clock time in ns at which the last step ended, or at which work arrived at an idle engine if that was later; kIdle
  // when idle.
  std::atomic<int64_t> progress_at_ns{kIdle};
  std::atomic<int> max_batch_tokens{0}, max_sequences{0}, step_ms{0}, loaded_batch_tokens{0}, batch_tokens_limit{0},
      sequences_limit{0};
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> steps{0}, step_rows{0}, prefill_tokens{0}, decode_tokens{0}, cached_tokens{0}, prompt_tokens{0},
      prompt_tokens_cached{0};
  std::atomic<uint64_t> draft_tokens{0}, accepted_draft_tokens{0}, drafter_tokens{0}, accepted_drafter_tokens{0};
  std::atomic<uint64_t> image_pieces{0}, image_pieces_cached{0};
  std::atomic<uint64_t> requests{0}, finished{0}, failed_requests{0}, preemptions{0};
  std::atomic<uint64_t> cancelled_queued{0}, cancelled_prefill{0}, cancelled_decode{0};
  std::atomic<uint64_t> pages_exported{0}, pages_imported{0}, exports_skipped{0}, exports_pending{0};
  std::atomic<uint64_t> step_ns{0}, prompt_step_ns{0}, prompt_step_rows{0};

  static void add(std::atomic<uint64_t>& counter, uint64_t amount) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }
  void note_progress(Clock::time_point now) {
    progress_at_ns.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void note_idle() { progress_at_ns.store(kIdle, std::memory_order_relaxed); }
  EngineStats snapshot(Clock::time_point now) const;
};

}  // namespace monolith
