#if defined(__AVX512VNNI__)

#include "tile_model.h"

#include "backend/cpu/fixed16/tiles-inl.h"
#include "backend/cpu/matmul/tiles-inl.h"
#include "tile_unit_model.h"

namespace monolith {
namespace {

struct MatmulUnit : ModelUnit {
  static int min_rows(PanelForm) { return 1; }
  static constexpr int max_in_place_tiles = 2;
};

}  // namespace

constinit const TileKernels kModelTiles = tile_kernels<MatmulUnit>();
constinit const TileKernels kModelFastTiles = fast_tile_kernels<MatmulUnit>();
constinit const Fixed16TileKernels kModelFixed16 = fixed16_tile_kernels<ModelUnit>();

}  // namespace monolith

#endif
