// Matmul kernels for AArch64 with the 8-bit dot product (FEAT_DotProd). See matmul/neon-inl.h and
// matmul/quants_neon-inl.h.
#if defined(__ARM_FEATURE_DOTPROD)

#include "backend/cpu/matmul/quants_neon-inl.h"

namespace monolith {
namespace {

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kNeonMatmul = matmul_table("neon", &calls);

}  // namespace monolith

#endif
