// Operation kernels for AVX2, FMA and F16C. Compiled with its own flags, so this file must not emit inline functions
// from shared headers: the linker might keep this file's copies, which would then run on CPUs that lack these
// instructions.
#include <immintrin.h>

#include "backend/cpu/ops/kernels.h"

// Loops over register tiles have constant bounds. Their accumulators stay in registers only if the loops are unrolled,
// which -O2 alone does not do.
#define MONOLITH_UNROLL _Pragma("GCC unroll 16")

namespace monolith {
namespace {

#include "backend/cpu/ops/vector_avx2.h"
// The kernels, which are written in terms of the vector types in vector_avx2.h.
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

const OpKernels& op_kernels_avx2() { return kKernels; }

}  // namespace monolith
