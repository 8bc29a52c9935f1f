// The part of Scheduler that says how far a prompt gets whose tokens' probabilities are wanted: as far as there are rows of
// logits for them.
#include <algorithm>

#include "engine/schedule/scheduler.h"

namespace monolith {

// Of the next `n_tokens`, the rows whose logits are wanted for the token behind each.
int Scheduler::scored_rows(const Sequence& sequence, int n_tokens) {
  if (!sequence.scores()) return 0;
  const int from = std::max(sequence.n_scored, sequence.n_computed),
            to = std::min(sequence.n_computed + n_tokens, sequence.n_prompt - 1);
  return std::max(to - from, 0);
}

// The rows of logits these take beyond the one that each sequence may have.
int Scheduler::rows_for_scores(const Sequence& sequence, int n_tokens) {
  const int rows = scored_rows(sequence, n_tokens);
  const bool has_last = n_tokens == sequence.remaining() && sequence.request.params.output == OutputKind::kTokens;
  return has_last ? rows : std::max(rows - 1, 0);
}

// Of the next `n_tokens` behind those that are planned, as many as there are rows of logits for.
int Scheduler::scorable(const Sequence& sequence, int n_tokens) const {
  if (!sequence.scores()) return n_tokens;
  const int planned = sequence.n_planned, before = rows_for_scores(sequence, planned);
  const auto fits = [&](int n) { return rows_for_scores(sequence, planned + n) - before <= score_rows_left_; };
  int least = 0, most = std::max(n_tokens, 0);  // more tokens never take fewer rows
  while (least < most) {
    const int middle = most - (most - least) / 2;
    if (fits(middle))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

}  // namespace monolith
