// Declares the kernels for quantized weights, to which the kernel tables refer. They are defined in
// {blocks,kquants,expanded}_*.cc. Types with the same panel_form() share a kernel: IQ2_XS uses the IQ2_S kernel, and
// TQ1_0 the TQ2_0 kernel.
#pragma once

#include "backend/cpu/matmul/kernels.h"

namespace monolith {

#define DECLARE_QUANTS(isa)            \
  namespace isa {                      \
  void q8_0(const PanelTile& tile);    \
  void q4_0(const PanelTile& tile);    \
  void q4_1(const PanelTile& tile);    \
  void q5_0(const PanelTile& tile);    \
  void q5_1(const PanelTile& tile);    \
  void iq4_nl(const PanelTile& tile);  \
  void mxfp4(const PanelTile& tile);   \
  void q2_k(const PanelTile& tile);    \
  void q3_k(const PanelTile& tile);    \
  void q4_k(const PanelTile& tile);    \
  void q5_k(const PanelTile& tile);    \
  void q6_k(const PanelTile& tile);    \
  void iq4_xs(const PanelTile& tile);  \
  void iq1_s(const PanelTile& tile);   \
  void iq1_m(const PanelTile& tile);   \
  void iq2_xxs(const PanelTile& tile); \
  void iq2_s(const PanelTile& tile);   \
  void iq3_xxs(const PanelTile& tile); \
  void iq3_s(const PanelTile& tile);   \
  void tq2_0(const PanelTile& tile);   \
  void nvfp4(const PanelTile& tile);   \
  }
DECLARE_QUANTS(avx2)
DECLARE_QUANTS(avxvnni)
DECLARE_QUANTS(avx512)
#undef DECLARE_QUANTS

// Pair kernels, which compute two panels per call.
namespace avx512 {
void q8_0_pair(const PanelTile& tile);
void q4_0_pair(const PanelTile& tile);
void q4_1_pair(const PanelTile& tile);
void q5_0_pair(const PanelTile& tile);
void q5_1_pair(const PanelTile& tile);
void iq4_nl_pair(const PanelTile& tile);
void mxfp4_pair(const PanelTile& tile);
void q2_k_pair(const PanelTile& tile);
void q3_k_pair(const PanelTile& tile);
void q4_k_pair(const PanelTile& tile);
void q5_k_pair(const PanelTile& tile);
void q6_k_pair(const PanelTile& tile);
void iq4_xs_pair(const PanelTile& tile);
void iq1_s_pair(const PanelTile& tile);
void iq1_m_pair(const PanelTile& tile);
void iq2_xxs_pair(const PanelTile& tile);
void iq2_s_pair(const PanelTile& tile);
void iq3_xxs_pair(const PanelTile& tile);
void iq3_s_pair(const PanelTile& tile);
void tq2_0_pair(const PanelTile& tile);
void nvfp4_pair(const PanelTile& tile);
}  // namespace avx512

}  // namespace monolith
