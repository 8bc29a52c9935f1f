#include "model/layers/activations.h"

#include <algorithm>

namespace monolith {

std::vector<ActivationBuffer> activation_buffers(const HyperParams& p, const ModelLimits& limits) {
  const int64_t rows = limits.max_batch_tokens;
  const int64_t logit_rows = std::min(limits.max_logit_rows, limits.max_batch_tokens);
  return {
      {&Activations::x, rows * p.n_embd},
      {&Activations::normed, rows * p.n_embd},
      {&Activations::q, rows * q_dim(p)},
      {&Activations::k, rows * kv_dim(p)},
      {&Activations::v, rows * kv_dim(p)},
      {&Activations::attended, rows * q_dim(p)},
      {&Activations::branch, p.post_norm || p.residual_scale != 1.0f ? rows * p.n_embd : 0},
      {&Activations::gate, rows * dense_ff(p)},
      {&Activations::up, rows * dense_ff(p)},
      {&Activations::router, rows * p.experts.count},
      {&Activations::shared, p.experts.shared_gate ? rows * p.n_embd : 0},
      {&Activations::shared_gate, p.experts.shared_gate ? rows : 0},
      {&Activations::last_q, logit_rows * q_dim(p)},
      {&Activations::last_x, logit_rows * p.n_embd},
      {&Activations::logits, logit_rows * p.n_vocab},
  };
}

int64_t dense_ff(const HyperParams& p) {
  const auto mixture = [](const LayerParams& layer) { return layer.mixture; };
  return std::max(std::ranges::all_of(p.layers, mixture) ? 0 : p.n_ff, p.experts.n_ff_shared);
}

int64_t widest_row(const HyperParams& p) {
  return std::max({int64_t{p.n_embd}, q_dim(p), dense_ff(p)});
}

MixtureShape mixture_shape(const HyperParams& p) {
  const ExpertParams& experts = p.experts;
  if (experts.count == 0) return {};
  return {experts.count, experts.used, p.n_embd, experts.n_ff};
}

}  // namespace monolith
