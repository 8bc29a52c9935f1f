// The operations' kernels for AArch64. Compiled with flags of its own: no inline function of a
// shared header may be emitted here, or the linker could pick it for other machines.
#include <arm_neon.h>

#include "backend/cpu/ops_kernels.h"

// The tiles' loops have constant bounds and live in registers only when unrolled; -O2 does not.
#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops_vector_neon.h"
// The arithmetic, over those vectors.
#include "backend/cpu/ops_rows-inl.h"
#include "backend/cpu/ops_gates-inl.h"
#include "backend/cpu/ops_attention_q8-inl.h"
#include "backend/cpu/ops_attention-inl.h"
#include "backend/cpu/ops_table-inl.h"

}   // namespace

const OpKernels& op_kernels_neon() { return kKernels; }

}   // namespace monolith
