// Unblocks each blocked sequence (OutputState::is_blocked()) whose grammar mask or grammar state a worker thread has
// computed. Queues the remaining blocked sequences for a worker in round-robin order: one sequence of each organization
// before a second sequence of any organization. Engine thread only.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace monolith {

class PendingMasks {
 public:
  explicit PendingMasks(GrammarRunner& grammars) : grammars_(grammars) {}

  // Call before each step. Returns false if memory ran out for a sequence (Request::out_of_memory).
  bool update(const std::vector<ScheduledSequence*>& preempted);

 private:
  GrammarRunner& grammars_;
  std::vector<std::pair<Sequence*, ptrdiff_t>> blocked_;  // Scratch of update(): blocked sequences and their turns.
  size_t first_ = 0;                                      // Rotates the order in which blocked sequences get turns.
};

}  // namespace monolith
