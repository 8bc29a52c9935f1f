// The kernels for quantized weights by name, as the tables list them: {blocks,kquants}_*.cc define them.
#pragma once

#include "backend/cpu/matmul/kernels.h"

namespace monolith {

#define DECLARE_QUANTS(isa)                                                                                          \
  namespace isa {                                                                                                    \
  void q8_0(const StripTile& tile);                                                                                  \
  void q4_0(const StripTile& tile);                                                                                  \
  void q4_1(const StripTile& tile);                                                                                  \
  void q5_0(const StripTile& tile);                                                                                  \
  void q5_1(const StripTile& tile);                                                                                  \
  void iq4_nl(const StripTile& tile);                                                                                \
  void mxfp4(const StripTile& tile);                                                                                 \
  void q2_k(const StripTile& tile);                                                                                  \
  void q3_k(const StripTile& tile);                                                                                  \
  void q4_k(const StripTile& tile);                                                                                  \
  void q5_k(const StripTile& tile);                                                                                  \
  void q6_k(const StripTile& tile);                                                                                  \
  void iq4_xs(const StripTile& tile);                                                                                \
  }
DECLARE_QUANTS(avx2)
DECLARE_QUANTS(avx512)
#undef DECLARE_QUANTS

// Of two strips at once.
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
}  // namespace avx512

}  // namespace monolith
