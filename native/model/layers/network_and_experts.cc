#include "model/layers/network_and_experts.h"

#include <cmath>

#include "model/layers/gated_mlp.h"

namespace monolith {

void NetworkAndExperts::run(StepRows& rows, bool) const {
  const ExpertWeights& own = weights_.experts;
  const Activations& to = buffers_;
  const int64_t n_embd = params_.n_embd;
  run_gated_mlp(params_, layer_, weights_.network, layer_.n_ff, operations_, to,
                residual_.read(rows, weights_.ffn_norm), rows.count, to.branch, false, InputUse::kLast);
  apply_norm(params_, own.network_post_norm, operations_, to.branch, rows.count, n_embd, to.branch);

  operations_.rms_norm(rows.x, own.router_scale, params_.norm_eps, rows.count, n_embd, to.normed);
  operations_.scale(to.normed, rows.count * n_embd, 1.0f / std::sqrt(static_cast<float>(n_embd)));
  const MatmulTarget routing{own.router.get(), to.router, params_.experts.count};
  operations_.matmul({&routing, 1}, to.normed, rows.count, InputUse::kLast);

  const float* const x = residual_.read(rows, own.norm);
  operations_.mixture(mixture(), to.router, x, rows.count, to.shared, false);
  apply_norm(params_, own.post_norm, operations_, to.shared, rows.count, n_embd, to.shared);
  operations_.add_rows(to.branch, to.shared, 1.0f, nullptr, rows.count, n_embd);
  residual_.add(weights_.ffn_post_norm, rows);
}

}  // namespace monolith
