#include "model/layers/layer_part.h"

namespace monolith {

const float* leave_logit_rows(StepRows& rows, const HyperParams& params, Operations& operations, const Activations& buffers,
                              const float* mixed, int64_t dim) {
  const int n = static_cast<int>(rows.logit_rows.size());
  if (n == rows.count) return mixed;
  if (n > 0) {
    operations.gather_rows(mixed, rows.logit_rows.data(), n, dim, buffers.last_q);
    operations.gather_rows(rows.x, rows.logit_rows.data(), n, params.n_embd, buffers.last_x);
    if (params.parallel_residual)
      operations.gather_rows(rows.normed, rows.logit_rows.data(), n, params.n_embd, buffers.last_normed);
  }
  rows.normed = buffers.last_normed;
  rows.x = buffers.last_x;
  rows.count = n;
  rows.all = false;
  return buffers.last_q;
}

const float* Residual::read(StepRows& rows, const NormWeights& norm) const {
  if (!params_.pre_norm) return rows.x;
  if (beside_) return rows.normed;
  apply_norm(params_, norm, operations_, rows.x, rows.count, params_.n_embd, buffers_.normed);
  rows.normed = buffers_.normed;
  return rows.normed;
}

void Residual::add(const NormWeights& post_norm, const StepRows& rows) const {
  if (is_direct()) return;
  float* const branch = buffers_.branch;
  if (params_.post_norm) apply_norm(params_, post_norm, operations_, branch, rows.count, params_.n_embd, branch);
  operations_.add_rows(rows.x, branch, params_.residual_scale, nullptr, rows.count, params_.n_embd);
}

}  // namespace monolith
