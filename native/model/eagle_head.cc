#include "model/eagle_head.h"

#include <algorithm>

namespace monolith {
namespace {

std::vector<MtpLayer::Parts> one_level(MtpLayer::Parts parts) {
  std::vector<MtpLayer::Parts> levels;
  levels.push_back(std::move(parts));
  return levels;
}

}  // namespace

EagleHead::EagleHead(const HyperParams& params, const ModelLimits& limits, const Weights& weights, Backend& backend,
                     const Activations& activations, Parts parts)
    : MtpLayer(params.draft.eagle->own.n_embd, limits, backend, activations, one_level(std::move(parts))),
      eagle_(*params.draft.eagle),
      weights_(weights),
      max_rows_(limits.max_batch_tokens) {
  indices_.reserve(static_cast<size_t>(std::max(2 * max_rows_, EagleParams::kSources * kJoinedRows)));
}

int EagleHead::last_noted() const { return *std::ranges::max_element(eagle_.sources); }

void EagleHead::note(int layer, const float* x, RowCount rows) {
  for (size_t i = 0; i < eagle_.sources.size(); ++i)
    if (eagle_.sources[i] == layer)
      backend_.copy_rows(x, eagle_.source_dim, rows, eagle_.source_dim,
                         activations_.sources + static_cast<int64_t>(i) * max_rows_ * eagle_.source_dim);
  if (layer == last_noted()) fuse(rows.value());
}

// Computes the step's hidden states from the concatenated source rows. Tokens are processed in groups; the group size
// does not affect the results.
void EagleHead::fuse(int n_rows) {
  const int64_t width = eagle_.sources_dim();
  for (int first = 0; first < n_rows; first += kJoinedRows) {
    const int n = std::min(kJoinedRows, n_rows - first);
    const RowCount rows = RowCount::fixed(n);
    indices_.clear();
    for (int row = first; row < first + n; ++row)
      for (int source = 0; source < EagleParams::kSources; ++source) indices_.push_back(source * max_rows_ + row);
    backend_.gather_rows(activations_.sources, indices_, eagle_.source_dim, activations_.joined);
    if (eagle_.norm_before_fc)
      backend_.rms_norm(activations_.joined, weights_.eagle.sources_norm, eagle_.own.norm_eps, rows, width,
                        activations_.joined);
    const MatmulTarget target{weights_.eagle.fusion.get(), rows_from(int64_t{of_step_} + first), n_embd_};
    backend_.matmul({&target, 1}, activations_.joined, rows, InputUse::kLast);
  }
}

StepRows EagleHead::project(int, std::span<const int32_t> tokens, std::span<const int32_t> hidden,
                            std::span<const std::span<const Segment>> tables) {
  const RowCount rows = RowCount::fixed(static_cast<int>(tokens.size()));
  const int64_t n_embd = n_embd_;
  const Matrix& table = weights_.eagle.embedding ? *weights_.eagle.embedding : *weights_.embedding;
  backend_.embed(table, tokens.data(), rows, rows_from(of_tokens_));
  // Concatenates each token's embedding and hidden state.
  indices_.clear();
  for (int row = 0; row < rows.value(); ++row) {
    indices_.push_back(of_tokens_ + row);
    indices_.push_back(hidden[static_cast<size_t>(row)]);
  }
  float* const both = activations_.draft_inputs;
  float* const x = activations_.x;
  backend_.gather_rows(activations_.hidden, indices_, n_embd, both);
  const float eps = eagle_.own.norm_eps;
  backend_.rms_norm_heads(both, 2 * n_embd, weights_.eagle.token_norm, eps, rows, 1, n_embd_);
  if (!eagle_.norm_before_residual) backend_.copy_rows(both + n_embd, 2 * n_embd, rows, n_embd, x);
  backend_.rms_norm_heads(both + n_embd, 2 * n_embd, weights_.eagle.hidden_norm, eps, rows, 1, n_embd_);
  if (eagle_.norm_before_residual) backend_.copy_rows(both + n_embd, 2 * n_embd, rows, n_embd, x);
  return {.tables = tables, .logit_rows = {}, .logit_tables = {}, .x = x, .count = rows, .mixer_input = both};
}

const float* EagleHead::finish(int, const float* x, RowCount rows) {
  apply_norm(eagle_.own, weights_.eagle.head_norm, backend_, x, rows, n_embd_, activations_.normed);
  return x;
}

}  // namespace monolith
