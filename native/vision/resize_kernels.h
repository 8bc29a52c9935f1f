// The kernel tables of resize.h for each instruction set. Included by the files that are compiled for them.
#pragma once

#include <cstdint>

#include "vision/resize.h"

namespace monolith {

#if defined(__x86_64__)
const ResizeKernels& resize_kernels_avx2();
#endif

}  // namespace monolith
