#include "model/layers/layer_part.h"

namespace monolith {

const float* Residual::read(const float* x, const float* norm, int n_rows) const {
  if (!params_.pre_norm) return x;
  operations_.rms_norm(x, norm, params_.rms_eps, n_rows, params_.n_embd, buffers_.normed);
  return buffers_.normed;
}

void Residual::add(const float* post_norm, const StepRows& rows) const {
  if (is_direct()) return;
  float* const branch = buffers_.branch;
  if (params_.post_norm)
    operations_.rms_norm(branch, post_norm, params_.rms_eps, rows.count, params_.n_embd, branch);
  operations_.add_rows(rows.x, branch, params_.residual_scale, nullptr, rows.count, params_.n_embd);
}

}  // namespace monolith
