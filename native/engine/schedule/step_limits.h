// The scheduler's limits: the sizes for which memory was allocated, and the operator's settings within them.
#pragma once

#include <algorithm>

namespace monolith {

struct SchedulerLimits {
  int max_rows;       // Maximum tokens per step. Buffers are allocated for this number.
  int max_sequences;  // Maximum running sequences. Logit rows are allocated for this number.
  bool prefix_cache = true;
  // Maximum logit rows per step, draft tokens included; values below max_sequences count as max_sequences.
  int max_logit_rows = 0;
  // For models with recurrent state: the distance in tokens between a prompt's snapshots, rounded up to whole pages.
  int snapshot_tokens = 1024;

  int logit_rows() const { return std::max(max_logit_rows, max_sequences); }
};

struct StepLimits {
  const SchedulerLimits allocated;
  int max_batch_tokens = 1, max_sequences = 1;  // The limits in effect. Changed only between plans.
  int wanted_sequences = 1;                     // Configured maximum of running sequences; max_sequences may be lower.

  int least_prompt_share() const { return std::max(1, max_batch_tokens / 4); }
};

}  // namespace monolith
