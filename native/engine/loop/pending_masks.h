// Unblocks the sequences whose next tokens a worker thread had to find out (OutputState::is_blocked()), and queues the
// others for that thread in turn: one sequence of each organization before a second one of any. Engine thread only.
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
