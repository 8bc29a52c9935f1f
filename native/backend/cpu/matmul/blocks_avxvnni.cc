// Matmul kernels for quantized weights in blocks of 32, with AVX-VNNI. This file must not emit functions that are
// shared with other files.
#if defined(__AVXVNNI__)

#include "backend/cpu/matmul/quants_avx2-inl.h"

namespace monolith::avxvnni {

void q8_0(const PanelTile& tile) { kByRows<TensorType::kQ8_0>[tile.n_rows - 1](tile); }
void q4_0(const PanelTile& tile) { kByRows<TensorType::kQ4_0>[tile.n_rows - 1](tile); }
void q4_1(const PanelTile& tile) { kByRows<TensorType::kQ4_1>[tile.n_rows - 1](tile); }
void q5_0(const PanelTile& tile) { kByRows<TensorType::kQ5_0>[tile.n_rows - 1](tile); }
void q5_1(const PanelTile& tile) { kByRows<TensorType::kQ5_1>[tile.n_rows - 1](tile); }
void iq4_nl(const PanelTile& tile) { kByRows<TensorType::kIQ4_NL>[tile.n_rows - 1](tile); }
void mxfp4(const PanelTile& tile) { kByRows<TensorType::kMXFP4>[tile.n_rows - 1](tile); }

}  // namespace monolith::avxvnni

#endif
