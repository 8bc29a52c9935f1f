// The passes in resize.h, compiled for AVX2.
#if defined(__AVX2__)

#include "vision/resize.h"

// This file needs its own optimization options, because -O2 does not vectorize loops that need gather instructions.
#pragma GCC optimize("O3")

namespace monolith {
namespace {

#include "vision/resize-inl.h"

}  // namespace

const ResizeKernels& resize_kernels_avx2() { return kKernels; }

}  // namespace monolith

#endif
