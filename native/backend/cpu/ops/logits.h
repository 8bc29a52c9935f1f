// Reductions over a row of host logits, for the sampler: called by the engine thread,
// single-threaded. Results are the same bits on every instruction set and depend on the row alone.
#pragma once

#include <cstdint>

#include "backend/cpu/cpu_backend.h"

namespace monolith {

// Any `count` >= 0. A NaN never wins and never spreads: it counts as minus infinity.
struct LogitOps {
  // The largest value; minus infinity if there is none.
  float (*max)(const float* x, int64_t count);
  // Sum of exp(x[i] - offset), i ascending in 16 interleaved float sums per block of 4096 values,
  // blocks added in double. With offset = max the relative error stays below 1e-6.
  double (*sum_exp)(const float* x, int64_t count, float offset);
  // out[i] = exp(x[i] - offset); may be in place.
  void (*exp)(const float* x, int64_t count, float offset, float* out);
  // Index of the largest value, the lowest on ties; 0 if every value is NaN or minus infinity, -1
  // if count is 0.
  int64_t (*argmax)(const float* x, int64_t count);
};

// Of the best instruction set this processor has, or of a given one it has.
const LogitOps& logit_ops();
const LogitOps& logit_ops(CpuIsa isa);

}  // namespace monolith
