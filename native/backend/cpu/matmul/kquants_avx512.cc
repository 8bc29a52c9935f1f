// Matmul kernels for quantized weights in blocks of 256, with AVX-512 VNNI. This file must not emit functions that are
// shared with other files.
#if defined(__AVX512VNNI__)

#include "backend/cpu/matmul/quants_avx512-inl.h"

namespace monolith::avx512 {

void q2_k(const PanelTile& tile) { kByRows<TensorType::kQ2_K>[tile.n_rows - 1](tile); }
void q2_k_pair(const PanelTile& tile) { kPairByRows<TensorType::kQ2_K>[tile.n_rows - 1](tile); }
void q3_k(const PanelTile& tile) { kByRows<TensorType::kQ3_K>[tile.n_rows - 1](tile); }
void q3_k_pair(const PanelTile& tile) { kPairByRows<TensorType::kQ3_K>[tile.n_rows - 1](tile); }
void q4_k(const PanelTile& tile) { kByRows<TensorType::kQ4_K>[tile.n_rows - 1](tile); }
void q4_k_pair(const PanelTile& tile) { kPairByRows<TensorType::kQ4_K>[tile.n_rows - 1](tile); }
void q5_k(const PanelTile& tile) { kByRows<TensorType::kQ5_K>[tile.n_rows - 1](tile); }
void q5_k_pair(const PanelTile& tile) { kPairByRows<TensorType::kQ5_K>[tile.n_rows - 1](tile); }
void q6_k(const PanelTile& tile) { kByRows<TensorType::kQ6_K>[tile.n_rows - 1](tile); }
void q6_k_pair(const PanelTile& tile) { kPairByRows<TensorType::kQ6_K>[tile.n_rows - 1](tile); }
void iq4_xs(const PanelTile& tile) { kByRows<TensorType::kIQ4_XS>[tile.n_rows - 1](tile); }
void iq4_xs_pair(const PanelTile& tile) { kPairByRows<TensorType::kIQ4_XS>[tile.n_rows - 1](tile); }

}  // namespace monolith::avx512

#endif
