// Scheduler: limits prompt chunks by the available logit rows if prompt log-probabilities are requested.
#include <algorithm>

#include "engine/schedule/scheduler.h"

namespace monolith {

// Number of the next `n_tokens` prompt tokens whose logits are needed for the log-probability of the following token.
int Scheduler::scored_rows(const Sequence& sequence, int n_tokens) {
  if (!sequence.scores()) return 0;
  const int from = std::max(sequence.n_scored, sequence.kv.n_computed),
            to = std::min(sequence.kv.n_computed + n_tokens, sequence.n_prompt - 1);
  return std::max(to - from, 0);
}

// Number of logit rows that these tokens need beyond the one row that each sequence has.
int Scheduler::rows_for_scores(const Sequence& sequence, int n_tokens) {
  const int rows = scored_rows(sequence, n_tokens);
  const bool has_last = n_tokens == sequence.remaining() && sequence.request.params.output == OutputKind::kTokens;
  return has_last ? rows : std::max(rows - 1, 0);
}

// Number of the next `n_tokens` tokens, after those already planned, for which there are logit rows.
int Scheduler::scorable(const Sequence& sequence, int n_tokens) const {
  if (!sequence.scores()) return n_tokens;
  const int planned = sequence.kv.n_planned, before = rows_for_scores(sequence, planned);
  const auto fits = [&](int n) { return rows_for_scores(sequence, planned + n) - before <= score_rows_left_; };
  // Binary search is possible because more tokens never need fewer logit rows.
  int least = 0, most = std::max(n_tokens, 0);
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
