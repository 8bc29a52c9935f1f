#include "engine/loop/batch_builder.h"

namespace monolith {

BatchBuilder::BatchBuilder(const ModelLimits& limits, int n_tables) : n_tables_(n_tables) {
  const auto rows = static_cast<size_t>(limits.max_batch_tokens);
  tokens_.reserve(rows);
  logit_rows_.reserve(static_cast<size_t>(limits.max_logit_rows));
  segments_.reserve(rows * static_cast<size_t>(n_tables));
  owners_.reserve(rows);
}

Batch BatchBuilder::build(const StepPlan& plan, bool logits_stay_on_backend) {
  tokens_.clear();
  segments_.clear();
  owners_.clear();
  logit_rows_.clear();
  prompt_rows_ = 0;
  for (const StepPlan::Item& item : plan.items) {
    const Sequence& sequence = *item.sequence;
    const auto first_row = static_cast<int>(tokens_.size());
    const auto first = sequence.tokens.begin() + sequence.n_computed;
    tokens_.insert(tokens_.end(), first, first + item.n_tokens);
    if (item.n_guesses > 0) {
      const std::span<const TokenId> guesses = sequence.guesses->last(item.n_guesses);
      tokens_.insert(tokens_.end(), guesses.begin(), guesses.end());
    }
    add_segments(plan, item, first_row);
    for (int i = 0; i < item.logit_rows(); ++i) logit_rows_.push_back(first_row + item.n_tokens - 1 + i);
    if (!sequence.decoding()) prompt_rows_ += static_cast<uint64_t>(item.n_tokens);
  }
  const size_t of_table = segments_.size();
  for (int table = 1; table < n_tables_; ++table) {
    for (size_t i = 0; i < of_table; ++i) {
      segments_.push_back(segments_[i]);
      segments_.back().pages = owners_[i]->table(table);
    }
  }
  return {tokens_, segments_, logit_rows_, logits_stay_on_backend};
}

// One segment, or where the model has recurrent state as many as there are slots on the way.
void BatchBuilder::add_segments(const StepPlan& plan, const StepPlan::Item& item, int row) {
  const Sequence& sequence = *item.sequence;
  int position = sequence.n_computed;
  const auto add = [&](int n_tokens, SlotId from, SlotId to) {
    segments_.push_back({row, n_tokens, position, sequence.table(0), from, to});
    owners_.push_back(&sequence);
    row += n_tokens;
    position += n_tokens;
  };
  if (item.n_pieces == 0) return add(item.n_tokens + item.n_guesses, kNoSlot, kNoSlot);
  for (const StepPlan::Piece& piece : plan.pieces_of(item)) add(piece.n_tokens, piece.from, piece.to);
  if (item.n_guesses > 0) add(item.n_guesses, segments_.back().state_to, sequence.guess_slot);
}

}  // namespace monolith
