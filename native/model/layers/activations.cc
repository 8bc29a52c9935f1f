#include "model/layers/activations.h"

#include <algorithm>

namespace monolith {

namespace {

// The most that any layer has.
template <typename Dim>
int64_t most(const HyperParams& p, Dim&& dim) {
  int64_t most = 0;
  for (const LayerParams& layer : p.layers) most = std::max<int64_t>(most, dim(layer));
  return most;
}

int64_t most_q(const HyperParams& p) {
  return most(p, [&](const LayerParams& layer) { return q_dim(p, layer); });
}
int64_t most_attended(const HyperParams& p) {
  return most(p, [&](const LayerParams& layer) { return attended_dim(p, layer); });
}

}  // namespace

std::vector<ActivationBuffer> activation_buffers(const HyperParams& p, const ModelLimits& limits) {
  const int64_t rows = limits.max_batch_tokens;
  const int64_t logit_rows = std::min(limits.max_logit_rows, limits.max_batch_tokens);
  return {
      {&Activations::x, rows * p.n_embd},
      {&Activations::normed, rows * p.n_embd},
      {&Activations::q, rows * most_q(p)},
      {&Activations::k, rows * most(p, k_dim)},
      {&Activations::v, rows * most(p, v_dim)},
      {&Activations::attended, rows * most_attended(p)},
      {&Activations::branch, p.post_norm || p.residual_scale != 1.0f ? rows * p.n_embd : 0},
      {&Activations::gate, rows * dense_ff(p)},
      {&Activations::up, rows * dense_ff(p)},
      {&Activations::router, rows * p.experts.count},
      {&Activations::shared, p.experts.shared_gate ? rows * p.n_embd : 0},
      {&Activations::shared_gate, p.experts.shared_gate ? rows : 0},
      {&Activations::last_q, logit_rows * most_q(p)},
      {&Activations::last_x, logit_rows * p.n_embd},
      {&Activations::logits, logit_rows * p.n_vocab},
  };
}

int64_t dense_ff(const HyperParams& p) {
  const auto mixture = [](const LayerParams& layer) { return layer.mixture; };
  return std::max(std::ranges::all_of(p.layers, mixture) ? 0 : p.n_ff, p.experts.n_ff_shared);
}

int64_t widest_row(const HyperParams& p) {
  return std::max({int64_t{p.n_embd}, most_q(p), most_attended(p), dense_ff(p)});
}

MixtureShape mixture_shape(const HyperParams& p) {
  const ExpertParams& experts = p.experts;
  if (experts.count == 0) return {};
  return {experts.count, experts.used, p.n_embd, experts.n_ff};
}

}  // namespace monolith
