// Portable operation kernels, without SIMD: the reference and the fallback. Each row is computed with the same
// operations, in the same order, as in the vector versions.
#include <bit>
#include <cmath>

#include "backend/cpu/ops/kernels.h"
#include "base/half.h"

// Loops over register tiles have constant bounds. Their accumulators stay in registers only if the loops are unrolled,
// which -O2 alone does not do.
#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_plain.h"
// The kernels, which are written in terms of the vector types in vector_plain.h.
#include "backend/cpu/ops/rows-inl.h"
#include "backend/cpu/ops/gates-inl.h"
#include "backend/cpu/ops/adapters-inl.h"
#include "backend/cpu/ops/attention_q8-inl.h"
#include "backend/cpu/ops/attention_packed-inl.h"
#include "backend/cpu/ops/attention_latents-inl.h"
#include "backend/cpu/ops/attention-inl.h"
#include "backend/cpu/ops/attention_integers-inl.h"
#include "backend/cpu/ops/recurrence-inl.h"
#include "backend/cpu/ops/state_space-inl.h"
#include "backend/cpu/ops/time_mix-inl.h"
#include "backend/cpu/ops/table-inl.h"

}  // namespace

const OpKernels& op_kernels_plain() { return kKernels; }

}  // namespace monolith
