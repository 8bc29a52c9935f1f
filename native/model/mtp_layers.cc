#include "model/mtp_layers.h"

namespace monolith {

MtpLayers::MtpLayers(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
                     const Activations& activations, std::vector<Parts> levels)
    : MtpLayer(params.n_embd, limits, backend, activations, std::move(levels)), params_(params), weights_(weights) {
  pairs_.reserve(2 * static_cast<size_t>(limits.max_batch_tokens));
}

void MtpLayers::note(int layer, const float* x, RowCount rows) {
  if (layer != params_.n_layers) return;
  float* const to = rows_from(of_step_);
  if (params_.draft.normed)
    apply_norm(params_, weights_.output_norm, backend_, x, rows, params_.n_embd, to);
  else
    backend_.copy_rows(x, params_.n_embd, rows, params_.n_embd, to);
}

StepRows MtpLayers::project(int level, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                            std::span<const std::span<const Segment>> tables) {
  const DraftWeights& weights = weights_of(level);
  const RowCount rows = RowCount::fixed(static_cast<int>(tokens.size()));
  const int64_t n_embd = params_.n_embd;
  const Matrix& table = weights.embedding ? *weights.embedding : *weights_.embedding;
  backend_.embed(table, tokens.data(), rows, rows_from(of_tokens_));
  if (params_.embedding_scale != 1.0f) backend_.scale(rows_from(of_tokens_), rows, n_embd, params_.embedding_scale);
  // Concatenates each token's embedding and hidden state.
  pairs_.clear();
  for (int row = 0; row < rows.value(); ++row) {
    pairs_.push_back(of_tokens_ + row);
    pairs_.push_back(hidden[static_cast<size_t>(row)]);
  }
  float* const both = activations_.draft_inputs;
  backend_.gather_rows(activations_.hidden, pairs_, n_embd, both);
  const auto dim = static_cast<int>(n_embd);
  backend_.rms_norm_heads(both, 2 * n_embd, weights.token_norm, params_.norm_eps, rows, 1, dim);
  backend_.rms_norm_heads(both + n_embd, 2 * n_embd, weights.hidden_norm, params_.norm_eps, rows, 1, dim);
  const MatmulTarget target{weights.projection.get(), activations_.x, n_embd};
  backend_.matmul({&target, 1}, both, rows, InputUse::kLast);
  return {.tables = tables, .logit_rows = {}, .logit_tables = {}, .x = activations_.x, .count = rows};
}

const float* MtpLayers::finish(int level, const float* x, RowCount rows) {
  const NormWeights& norm = params_.draft.head_norm_name.empty() ? weights_.output_norm : weights_of(level).head_norm;
  apply_norm(params_, norm, backend_, x, rows, params_.n_embd, activations_.normed);
  return params_.draft.normed ? activations_.normed : x;
}

}  // namespace monolith
