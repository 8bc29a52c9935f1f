// Matmul kernels for AArch64 with the 8-bit matrix product (FEAT_I8MM). See matmul/neon-inl.h and
// matmul/quants_neon-inl.h.
#if defined(__ARM_FEATURE_MATMUL_INT8)

#include "backend/cpu/matmul/quants_neon-inl.h"

namespace monolith {
namespace {

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kNeonI8mmMatmul = matmul_table("neon_i8mm", &calls);

}  // namespace monolith

#endif
