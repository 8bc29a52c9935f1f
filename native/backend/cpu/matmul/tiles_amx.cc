// The tile kernels on AMX. This file must not emit functions that are shared with other files.
#if defined(__AMX_INT8__)

#include "backend/cpu/machine/amx-inl.h"
#include "backend/cpu/matmul/tiles-inl.h"

namespace monolith {
namespace {

struct MatmulUnit : AmxUnit {
  // Measured on Granite Rapids and Emerald Rapids. The minimum is higher for 8-bit weights, which take longer to read,
  // and for steps that cover only 16 values, because there are more sums to scale.
  static int min_rows(PanelForm form) { return form.low_bits == 8 ? 24 : form.step == 16 ? 28 : 17; }
  static constexpr int max_in_place_tiles = 4;
};

}  // namespace

constinit const TileKernels kAmxTiles = tile_kernels<MatmulUnit>();
constinit const TileKernels kAmxFastTiles = fast_tile_kernels<MatmulUnit>();

}  // namespace monolith

#endif
