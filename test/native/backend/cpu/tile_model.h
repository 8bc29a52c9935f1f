// The tile kernels on a model of the AMX tile unit, so that their results can be tested on processors without AMX.
#pragma once

#include "backend/cpu/matmul/tiles.h"

namespace monolith {

// May run only on processors that have CpuIsa::kAvx512 and BF16.
extern const TileKernels kModelTiles, kModelFastTiles;

}  // namespace monolith
