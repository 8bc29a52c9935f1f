// The tile kernels, running on a model of the AMX tile unit. This allows their results to be tested on processors
// without AMX.
#pragma once

#include "backend/cpu/fixed16/kernels.h"
#include "backend/cpu/matmul/tiles.h"

namespace monolith {

// May be called only on processors that have CpuIsa::kAvx512 and BF16.
extern const TileKernels kModelTiles, kModelFastTiles;
extern const Fixed16TileKernels kModelFixed16;

}  // namespace monolith
