#if defined(__AVX512VNNI__)

#include "tile_model.h"

#include "backend/cpu/matmul/tiles-inl.h"
#include "tile_unit_model.h"

namespace monolith {
namespace {

struct MatmulUnit : ModelUnit {
  static int min_rows(PanelForm) { return 1; }
};

}  // namespace

constinit const TileKernels kModelTiles = tile_kernels<MatmulUnit>();
constinit const TileKernels kModelFastTiles = fast_tile_kernels<MatmulUnit>();

}  // namespace monolith

#endif
