// The operations' kernels for AArch64. Compiled with flags of its own: no inline function of a
// shared header may be emitted here, or the linker could pick it for other machines.
#include <arm_neon.h>

#include "backend/cpu/ops/kernels.h"

// The tiles' loops have constant bounds and live in registers only when unrolled; -O2 does not.
#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_neon.h"
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

const OpKernels& op_kernels_neon() { return kKernels; }

}  // namespace monolith
