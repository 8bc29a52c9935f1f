// Reductions over a row of host logits, for the sampler. Called on the engine thread; single-threaded. Results have the
// same bits with every instruction set and depend only on the row.
#pragma once

#include <cstdint>

#include "backend/cpu/cpu_backend.h"

namespace monolith {

// All functions accept any `count` >= 0. NaN counts as minus infinity, so it is never the maximum and does not
// propagate.
struct LogitOps {
  // Returns the largest value, or minus infinity if there is none.
  float (*max)(const float* x, int64_t count);
  // Returns the sum of exp(x[i] - offset). Within each block of 4096 values, i is ascending and 16 interleaved float
  // sums are used. The sums of the blocks are added in double precision. With offset = max, the relative error stays
  // below 1e-6.
  double (*sum_exp)(const float* x, int64_t count, float offset);
  // Computes out[i] = exp(x[i] - offset). May run in place.
  void (*exp)(const float* x, int64_t count, float offset, float* out);
  // Returns the index of the largest value; among equal values, the lowest index. Returns 0 if every value is NaN or
  // minus infinity, and -1 if count is 0.
  int64_t (*argmax)(const float* x, int64_t count);
};

// Returns the reductions for the best instruction set that this processor supports, or for `isa`, which it must
// support.
const LogitOps& logit_ops();
const LogitOps& logit_ops(CpuIsa isa);

}  // namespace monolith
