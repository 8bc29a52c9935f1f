#include "model/layers/short_convolution.h"

namespace monolith {

void ShortConvolution::run(StepRows& rows, bool last) const {
  const Activations& to = buffers_;
  const float* const x = residual_.read(rows, weights_.norm);
  const int64_t n = params_.n_embd;
  const MatmulTarget targets[] = {{weights_.before.get(), to.attended, n},
                                  {weights_.after.get(), to.mixer_gate, n},
                                  {weights_.input.get(), to.q, n}};
  operations_.matmul(targets, x, rows.count, residual_.last_use());
  float* gated = to.mixer_gate;
  operations_.gated(Activation::kIdentity, to.q, to.attended, rows.count, n, to.q);
  // The segments of any page table can be used here, because all of them contain the same state slots.
  operations_.convolve(convolution_, rows.tables.front(), inputs_, to.q, n);
  operations_.gated(Activation::kIdentity, gated, to.q, rows.count, n, gated);
  const float* const out = last ? leave_logit_rows(rows, params_, operations_, to, gated, n) : gated;
  if (rows.count.value() == 0) return;
  const MatmulTarget target{weights_.output.get(), residual_.target(rows), params_.n_embd, nullptr,
                            residual_.is_direct()};
  operations_.matmul({&target, 1}, out, rows.count, InputUse::kLast);
  residual_.add(weights_.post_norm, rows);
}

}  // namespace monolith
