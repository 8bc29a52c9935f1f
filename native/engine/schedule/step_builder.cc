#include "engine/schedule/step_builder.h"

#include <algorithm>

namespace monolith {
namespace {

// Returns how many of the next `n_tokens` prompt tokens need logits, from which the log-probability of the following
// token is computed.
int scored_rows(const ScheduledSequence& sequence, int n_tokens) {
  if (!sequence.scores()) return 0;
  const int from = std::max(sequence.n_scored, sequence.kv.n_computed),
            to = std::min(sequence.kv.n_computed + n_tokens, sequence.n_prompt - 1);
  return std::max(to - from, 0);
}

// Returns the number of logit rows that these tokens need in addition to the one row that is reserved for each
// sequence.
int rows_for_scores(const ScheduledSequence& sequence, int n_tokens) {
  const int rows = scored_rows(sequence, n_tokens);
  const bool has_last = n_tokens == sequence.remaining() && sequence.generates;
  return has_last ? rows : std::max(rows - 1, 0);
}

}  // namespace

StepBuilder::StepBuilder(SnapshotKeeper& snapshots, const StepLimits& limits, const KvLayout& layout)
    : snapshots_(snapshots), limits_(limits) {
  const auto n = static_cast<size_t>(limits.allocated.max_sequences);
  plan_.items.reserve(n);
  plan_.copies.reserve(n * static_cast<size_t>(layout.tables()));
  if (snapshots.any()) plan_.chunks.reserve(static_cast<size_t>(limits.allocated.max_rows));
}

void StepBuilder::clear() {
  plan_.items.clear();
  plan_.copies.clear();
  plan_.chunks.clear();
  plan_.n_rows = plan_.n_drafts = plan_.n_decodes = plan_.n_ahead = 0;
  plan_.first_tokens = false;
}

void StepBuilder::count_score_rows(int n_running) {
  score_rows_left_ = limits_.allocated.logit_rows() - std::max(limits_.max_sequences, n_running);
}

bool StepBuilder::add(ScheduledSequence& sequence, int n_tokens) {
  const bool is_last = n_tokens == sequence.remaining();
  StepPlan::Item item{&sequence, n_tokens, is_last, is_last && sequence.generates};
  item.first_position = sequence.kv.n_computed;
  item.n_scored = scored_rows(sequence, n_tokens);
  item.first_scored = std::max(sequence.n_scored - sequence.kv.n_computed, 0);
  if (!snapshots_.plan_chunks(plan_, item)) {
    sequence.kv.n_planned = 0;
    return false;
  }
  plan_.items.push_back(item);
  plan_.n_rows += n_tokens;
  return true;
}

int StepBuilder::scorable(const ScheduledSequence& sequence, int n_tokens) const {
  if (!sequence.scores()) return n_tokens;
  const int planned = sequence.kv.n_planned, before = rows_for_scores(sequence, planned);
  const auto fits = [&](int n) { return rows_for_scores(sequence, planned + n) - before <= score_rows_left_; };
  // A binary search works here, because the number of logit rows never decreases when tokens are added.
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

void StepBuilder::schedule(ScheduledSequence& sequence, int n_tokens) {
  const int planned = sequence.kv.n_planned;
  score_rows_left_ -= rows_for_scores(sequence, planned + n_tokens) - rows_for_scores(sequence, planned);
  sequence.kv.n_planned += n_tokens;
}

}  // namespace monolith
