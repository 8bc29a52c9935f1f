// The 16-bit matmul on AMX. This file must not emit functions that are shared with other files.
#if defined(__AMX_INT8__)

#include "backend/cpu/fixed16/tiles-inl.h"
#include "backend/cpu/machine/amx-inl.h"

namespace monolith {

constinit const Fixed16TileKernels kAmxFixed16 = fixed16_tile_kernels<AmxUnit>();

}  // namespace monolith

#endif
