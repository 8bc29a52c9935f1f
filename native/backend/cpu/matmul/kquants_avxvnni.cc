// Matmul kernels for quantized weights in blocks of 256, with AVX-VNNI. This file must not emit functions that are
// shared with other files.
#if defined(__AVXVNNI__)

#include "backend/cpu/matmul/quants_avx2-inl.h"

namespace monolith::avxvnni {

void q2_k(const PanelTile& tile) { kByRows<TensorType::kQ2_K>[tile.n_rows - 1](tile); }
void q3_k(const PanelTile& tile) { kByRows<TensorType::kQ3_K>[tile.n_rows - 1](tile); }
void q4_k(const PanelTile& tile) { kByRows<TensorType::kQ4_K>[tile.n_rows - 1](tile); }
void q5_k(const PanelTile& tile) { kByRows<TensorType::kQ5_K>[tile.n_rows - 1](tile); }
void q6_k(const PanelTile& tile) { kByRows<TensorType::kQ6_K>[tile.n_rows - 1](tile); }
void iq4_xs(const PanelTile& tile) { kByRows<TensorType::kIQ4_XS>[tile.n_rows - 1](tile); }

}  // namespace monolith::avxvnni

#endif
