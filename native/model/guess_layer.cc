#include "model/guess_layer.h"

#include <algorithm>
#include <cassert>

namespace monolith {
namespace {

int guess_rows_of(const ModelLimits& limits) { return std::min(limits.max_logit_rows, limits.max_batch_tokens); }

}  // namespace

int64_t hidden_rows(const ModelLimits& limits) {
  return int64_t{limits.kept_rows()} + 1 + guess_rows_of(limits) + int64_t{2} * limits.max_batch_tokens;
}

GuessLayer::GuessLayer(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
                       const Activations& activations, std::vector<std::unique_ptr<LayerPart>> parts)
    : params_(params),
      weights_(weights),
      backend_(backend),
      activations_(activations),
      parts_(std::move(parts)),
      zeros_(limits.kept_rows()),
      guessed_(zeros_ + 1),
      of_step_(guessed_ + guess_rows_of(limits)),
      of_tokens_(of_step_ + limits.max_batch_tokens) {
  const auto rows = static_cast<size_t>(limits.max_batch_tokens);
  hidden_.reserve(rows);
  pairs_.reserve(2 * rows);
  kept_.reserve(rows);
  const std::vector<float> none(static_cast<size_t>(params.n_embd));
  for (int row = 0; row <= zeros_; ++row) backend.write_floats(rows_from(row), none.data(), params.n_embd);
}

void GuessLayer::note_hidden(const float* x, int n_rows) {
  float* const to = rows_from(of_step_);
  if (params_.guess.normed) apply_norm(params_, weights_.output_norm, backend_, x, n_rows, params_.n_embd, to);
  else backend_.copy_rows(x, params_.n_embd, n_rows, params_.n_embd, to);
}

StepRows GuessLayer::project(std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                             std::span<const std::span<const Segment>> tables) {
  const auto n_rows = static_cast<int>(tokens.size());
  const int64_t n_embd = params_.n_embd;
  const Matrix& table = weights_.guess.embedding ? *weights_.guess.embedding : *weights_.embedding;
  backend_.embed(table, tokens.data(), n_rows, rows_from(of_tokens_));
  if (params_.embedding_scale != 1.0f) backend_.scale(rows_from(of_tokens_), n_rows * n_embd, params_.embedding_scale);
  // Side by side: a token's row, then the hidden one.
  pairs_.clear();
  for (int row = 0; row < n_rows; ++row) {
    pairs_.push_back(of_tokens_ + row);
    pairs_.push_back(hidden[static_cast<size_t>(row)]);
  }
  float* const both = activations_.guess_inputs;
  backend_.gather_rows(activations_.hidden, pairs_.data(), 2 * n_rows, n_embd, both);
  const auto dim = static_cast<int>(n_embd);
  backend_.rms_norm_heads(both, 2 * n_embd, weights_.guess.token_norm, params_.norm_eps, n_rows, 1, dim);
  backend_.rms_norm_heads(both + n_embd, 2 * n_embd, weights_.guess.hidden_norm, params_.norm_eps, n_rows, 1, dim);
  const MatmulTarget target{weights_.guess.projection.get(), activations_.x, n_embd};
  backend_.matmul({&target, 1}, both, n_rows, InputUse::kLast);
  return {.tables = tables, .logit_rows = {}, .logit_tables = {}, .x = activations_.x, .count = n_rows};
}

void GuessLayer::feed(const Batch& batch, std::span<const std::span<const Segment>> tables) {
  hidden_.clear();
  for (const HiddenRun& run : batch.hidden) {
    assert(run.first_row == static_cast<int>(hidden_.size()) && run.from < zeros_ && run.to + run.n_kept <= zeros_);
    hidden_.push_back(run.from < 0 ? zeros_ : run.from);
    for (int row = 1; row < run.n_rows; ++row) hidden_.push_back(of_step_ + run.first_row + row - 1);
  }
  assert(hidden_.size() == batch.tokens.size());
  StepRows rows = project(batch.tokens, hidden_, tables);
  // None of the rows is wanted any further: the first part keeps its keys and values, and that is all.
  for (size_t i = 0; i < parts_.size() && rows.count > 0; ++i) parts_[i]->run(rows, parts_[i]->keeps());
  for (const HiddenRun& run : batch.hidden) {
    kept_.clear();
    for (int row = run.n_rows - run.n_kept; row < run.n_rows; ++row) kept_.push_back(of_step_ + run.first_row + row);
    backend_.gather_rows(activations_.hidden, kept_.data(), run.n_kept, params_.n_embd, rows_from(run.to));
  }
}

const float* GuessLayer::guess(const GuessBatch& batch, std::span<const std::span<const Segment>> tables) {
  const auto n_rows = static_cast<int>(batch.tokens.size());
  hidden_.clear();
  for (const int32_t row : batch.hidden) hidden_.push_back(row >= 0 ? row : guessed_ - 1 - row);
  StepRows rows = project(batch.tokens, hidden_, tables);
  for (const std::unique_ptr<LayerPart>& part : parts_) part->run(rows, false);
  const NormWeights& norm = params_.guess.head_norm_name.empty() ? weights_.output_norm : weights_.guess.head_norm;
  apply_norm(params_, norm, backend_, rows.x, n_rows, params_.n_embd, activations_.normed);
  backend_.copy_rows(params_.guess.normed ? activations_.normed : rows.x, params_.n_embd, n_rows, params_.n_embd, rows_from(guessed_));
  return activations_.normed;
}

}  // namespace monolith
