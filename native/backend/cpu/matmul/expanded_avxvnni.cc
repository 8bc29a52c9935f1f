// Matmul kernels for expanded i-quants (codebook types), ternary types and NVFP4, with AVX-VNNI. This file must not
// emit functions that are shared with other files.
#if defined(__AVXVNNI__)

#include "backend/cpu/matmul/quants_avx2-inl.h"

namespace monolith::avxvnni {

void iq1_s(const PanelTile& tile) { kByRows<TensorType::kIQ1_S>[tile.n_rows - 1](tile); }
void iq1_m(const PanelTile& tile) { kByRows<TensorType::kIQ1_M>[tile.n_rows - 1](tile); }
void iq2_xxs(const PanelTile& tile) { kByRows<TensorType::kIQ2_XXS>[tile.n_rows - 1](tile); }
void iq2_s(const PanelTile& tile) { kByRows<TensorType::kIQ2_S>[tile.n_rows - 1](tile); }
void iq3_xxs(const PanelTile& tile) { kByRows<TensorType::kIQ3_XXS>[tile.n_rows - 1](tile); }
void iq3_s(const PanelTile& tile) { kByRows<TensorType::kIQ3_S>[tile.n_rows - 1](tile); }
void tq2_0(const PanelTile& tile) { kByRows<TensorType::kTQ2_0>[tile.n_rows - 1](tile); }
void nvfp4(const PanelTile& tile) { kByRows<TensorType::kNVFP4>[tile.n_rows - 1](tile); }

}  // namespace monolith::avxvnni

#endif
