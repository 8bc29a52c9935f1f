// The operations' kernels without an instruction set: the reference, and the fallback.
// The operations of each row are those of the vector versions, in the same order.
#include <bit>
#include <cmath>

#include "backend/cpu/ops/kernels.h"
#include "base/half.h"

// The tiles' loops have constant bounds and live in registers only when unrolled; -O2 does not.
#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_plain.h"
// The arithmetic, over those vectors.
#include "backend/cpu/ops/rows-inl.h"
#include "backend/cpu/ops/gates-inl.h"
#include "backend/cpu/ops/attention_q8-inl.h"
#include "backend/cpu/ops/attention_latents-inl.h"
#include "backend/cpu/ops/attention-inl.h"
#include "backend/cpu/ops/attention_integers-inl.h"
#include "backend/cpu/ops/recurrence-inl.h"
#include "backend/cpu/ops/state_space-inl.h"
#include "backend/cpu/ops/table-inl.h"

}  // namespace

const OpKernels& op_kernels_plain() { return kKernels; }

}  // namespace monolith
