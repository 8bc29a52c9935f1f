// The operations' kernels for AVX-512 (F, BW, VL, DQ). Compiled with flags of its own: no
// inline function of a shared header may be emitted here, or the linker could pick it for other
// machines.

// GCC 12 takes the undefined operand of its own unmasked AVX-512 intrinsics for a mistake (its bug
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "backend/cpu/ops/kernels.h"

// The tiles' loops have constant bounds and live in registers only when unrolled; -O2 does not.
#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_avx512.h"
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

const OpKernels& op_kernels_avx512() { return kKernels; }

}  // namespace monolith
