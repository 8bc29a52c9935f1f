// The kernels for quantized weights by name, as the tables list them: matmul_{blocks,kquants}_*.cc define them.
#pragma once

#include "backend/cpu/matmul_kernels.h"

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

}  // namespace monolith
