// Names of the kernels for quantized weights, as listed in the kernel tables. They are defined in
// {blocks,kquants,lattices}_*.cc. Types with equal strip_form() share a kernel: IQ2_XS uses that of IQ2_S, TQ1_0 that
// of TQ2_0.
#pragma once

#include "backend/cpu/matmul/kernels.h"

namespace monolith {

#define DECLARE_QUANTS(isa)            \
  namespace isa {                      \
  void q8_0(const StripTile& tile);    \
  void q4_0(const StripTile& tile);    \
  void q4_1(const StripTile& tile);    \
  void q5_0(const StripTile& tile);    \
  void q5_1(const StripTile& tile);    \
  void iq4_nl(const StripTile& tile);  \
  void mxfp4(const StripTile& tile);   \
  void q2_k(const StripTile& tile);    \
  void q3_k(const StripTile& tile);    \
  void q4_k(const StripTile& tile);    \
  void q5_k(const StripTile& tile);    \
  void q6_k(const StripTile& tile);    \
  void iq4_xs(const StripTile& tile);  \
  void iq1_s(const StripTile& tile);   \
  void iq1_m(const StripTile& tile);   \
  void iq2_xxs(const StripTile& tile); \
  void iq2_s(const StripTile& tile);   \
  void iq3_xxs(const StripTile& tile); \
  void iq3_s(const StripTile& tile);   \
  void tq2_0(const StripTile& tile);   \
  void nvfp4(const StripTile& tile);   \
  }
DECLARE_QUANTS(avx2)
DECLARE_QUANTS(avx512)
#undef DECLARE_QUANTS

// Pair kernels, which compute two panels at once.
namespace avx512 {
void q8_0_pair(const StripTile& tile);
void q4_0_pair(const StripTile& tile);
void q4_1_pair(const StripTile& tile);
void q5_0_pair(const StripTile& tile);
void q5_1_pair(const StripTile& tile);
void iq4_nl_pair(const StripTile& tile);
void mxfp4_pair(const StripTile& tile);
void q2_k_pair(const StripTile& tile);
void q3_k_pair(const StripTile& tile);
void q4_k_pair(const StripTile& tile);
void q5_k_pair(const StripTile& tile);
void q6_k_pair(const StripTile& tile);
void iq4_xs_pair(const StripTile& tile);
void iq1_s_pair(const StripTile& tile);
void iq1_m_pair(const StripTile& tile);
void iq2_xxs_pair(const StripTile& tile);
void iq2_s_pair(const StripTile& tile);
void iq3_xxs_pair(const StripTile& tile);
void iq3_s_pair(const StripTile& tile);
void tq2_0_pair(const StripTile& tile);
void nvfp4_pair(const StripTile& tile);
}  // namespace avx512

}  // namespace monolith
