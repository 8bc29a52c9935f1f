// Chooses the kernels for a matmul. Safe to call from any thread.
#pragma once

#include "backend/cpu/matmul/row_tiles.h"
#include "backend/cpu/matmul/tiles.h"

namespace monolith {

// kPanel, kPair: one panel or two panels per call. kTile, kFastTile: the kernels in MatmulKernels::tiles and
// fast_tiles; the latter are used only with Arithmetic::kFast.
enum class KernelKind : uint8_t { kPanel, kPair, kTile, kFastTile };

// Chooses the fastest kernels that support the types of all weights of a matmul with n_rows rows.
class KernelChoice {
 public:
  KernelChoice(const MatmulKernels& kernels, int n_rows)
      : kernels_(kernels),
        n_rows_(n_rows),
        fast_(kernels.fast_tiles != nullptr && n_rows >= kernels.min_fast_rows),
        tiles_(kernels.tiles != nullptr),
        pairs_(n_rows > kernels.max_tile_rows) {}
  // Adds the type of a weight matrix. `never_fast` has the same meaning as in MatmulTarget.
  void add(TensorType type, bool never_fast) {
    const int index = panel_type_index(type);
    fast_ = fast_ && !never_fast && kernels_.fast_tiles->expand[index] != nullptr;
    tiles_ =
        tiles_ && kernels_.tiles->expand[index] != nullptr && n_rows_ >= kernels_.tiles->min_rows(panel_form(type));
    pairs_ = pairs_ && kernels_.pair[index] != nullptr;
  }
  KernelKind kind() const {
    if (fast_) return KernelKind::kFastTile;
    return tiles_ ? KernelKind::kTile : pairs_ ? KernelKind::kPair : KernelKind::kPanel;
  }

 private:
  const MatmulKernels& kernels_;
  const int n_rows_;
  bool fast_, tiles_, pairs_;
};

// Returns null for kPanel and kPair.
inline const TileKernels* tile_kernels(const MatmulKernels& kernels, KernelKind kind) {
  return kind == KernelKind::kFastTile ? kernels.fast_tiles : kind == KernelKind::kTile ? kernels.tiles : nullptr;
}

// How the rows are split.
inline Tiles split_rows(const MatmulKernels& kernels, KernelKind kind, int n_rows) {
  if (const TileKernels* tiles = tile_kernels(kernels, kind)) return Tiles(n_rows, tiles->max_rows, Tiles::kFull);
  return Tiles(n_rows, kind == KernelKind::kPair ? kernels.max_pair_rows : kernels.max_tile_rows);
}

// Returns how the rows are packed for a weight matrix of this type.
inline ActivationKind activation_kind(const MatmulKernels& kernels, KernelKind kind, TensorType type) {
  if (const TileKernels* tiles = tile_kernels(kernels, kind)) return tiles->lines;
  return kernels.activation[panel_type_index(type)];
}

}  // namespace monolith
