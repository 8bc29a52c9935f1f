// The tables of resize.h by instruction set: for the files that are compiled for each.
#pragma once

#include <cstdint>

#include "vision/resize.h"

namespace monolith {

#if defined(__x86_64__)
const ResizeKernels& resize_kernels_avx2();
#endif

}  // namespace monolith
