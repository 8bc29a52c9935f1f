#include "model/mtp_layer.h"

#include <algorithm>
#include <cassert>

namespace monolith {

int draft_rows(const ModelLimits& limits, int n_levels) {
  return static_cast<int>(std::min<int64_t>(int64_t{limits.max_logit_rows} * n_levels, limits.max_batch_tokens));
}

int64_t hidden_rows(const ModelLimits& limits, int n_levels) {
  return int64_t{n_levels} * limits.kept_rows() + 1 + draft_rows(limits, n_levels) +
         int64_t{2} * limits.max_batch_tokens;
}

MtpLayer::MtpLayer(int n_embd, const ModelLimits& limits, Backend& backend, const Activations& activations,
                   std::vector<Parts> levels)
    : n_embd_(n_embd),
      backend_(backend),
      activations_(activations),
      levels_(std::move(levels)),
      of_level_(limits.kept_rows()),
      zeros_(static_cast<int>(levels_.size()) * of_level_),
      drafted_(zeros_ + 1),
      of_step_(drafted_ + draft_rows(limits, static_cast<int>(levels_.size()))),
      of_tokens_(of_step_ + limits.max_batch_tokens) {
  const auto rows = static_cast<size_t>(limits.max_batch_tokens);
  hidden_.reserve(rows);
  rows_.reserve(rows);
  const std::vector<float> none(static_cast<size_t>(n_embd));
  for (int row = 0; row <= zeros_; ++row) backend.write_floats(rows_from(row), none.data(), n_embd);
}

void MtpLayer::feed(const Batch& batch, std::span<const std::span<const Segment>> tables) {
  for (int level = 0; level <= last_level(); ++level) {
    hidden_.clear();
    for (const HiddenRange& run : batch.hidden) {
      assert(run.first_row == static_cast<int>(hidden_.size()) && run.from < of_level_ &&
             run.to + run.n_kept <= of_level_);
      hidden_.push_back(run.from < 0 ? zeros_ : level * of_level_ + run.from);
      for (int row = 1; row < run.n_rows; ++row) hidden_.push_back(of_step_ + run.first_row + row - 1);
    }
    assert(hidden_.size() == batch.tokens.size());
    StepRows rows = project(level, batch.tokens, hidden_, tables);
    keep(level, batch);
    // The outputs of the last level are not needed, so only its first block runs, which stores the keys and values.
    const bool last = level == last_level();
    for (size_t i = 0; i < levels_[static_cast<size_t>(level)].size() && rows.count.value() > 0; ++i) {
      const LayerBlock& part = *levels_[static_cast<size_t>(level)][i];
      part.run(rows, last && part.keeps());
    }
    if (!last) backend_.copy_rows(finish(level, rows.x, rows.count), n_embd_, rows.count, n_embd_, rows_from(of_step_));
  }
}

// Saves the hidden states of this step that the next step reads.
void MtpLayer::keep(int level, const Batch& batch) {
  for (const HiddenRange& run : batch.hidden) {
    const int first = of_step_ + run.first_row + run.n_rows - run.n_kept;
    backend_.copy_rows(rows_from(first), n_embd_, RowCount::fixed(run.n_kept), n_embd_,
                       rows_from(int64_t{level} * of_level_ + run.to));
  }
}

void MtpLayer::draft(const DraftBatch& batch, std::span<const std::span<const Segment>> tables) {
  const int level = std::min(batch.level, last_level());
  hidden_.clear();
  for (const int32_t row : batch.hidden) hidden_.push_back(row >= 0 ? level * of_level_ + row : drafted_ - 1 - row);
  StepRows rows = project(level, batch.tokens, hidden_, tables);
  for (const std::unique_ptr<LayerBlock>& part : levels_[static_cast<size_t>(level)]) part->run(rows, false);
  const float* const next = finish(level, rows.x, rows.count);
  backend_.copy_rows(next, n_embd_, rows.count, n_embd_, rows_from(drafted_));
  const std::span<const Segment> sequences = tables[0];
  if (static_cast<int>(sequences.size()) == rows.count.value()) return;
  rows_.clear();
  for (const Segment& one : sequences) rows_.push_back(one.first_row + one.n_tokens - 1);
  backend_.gather_rows(activations_.normed, rows_, n_embd_, activations_.last_x);
  backend_.copy_rows(activations_.last_x, n_embd_, RowCount::fixed(static_cast<int>(rows_.size())), n_embd_,
                     activations_.normed);
}

}  // namespace monolith
