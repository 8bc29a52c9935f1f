// See peak.h. Twelve chains hide the latency of both measured instructions, the 8-bit dot product and the fused
// multiply-add, on every processor that supports them.
#if defined(__AVX512VNNI__)

#include "backend/cpu/machine/peak.h"

namespace monolith {
namespace {

#define TWELVE(chain)                                                                                           \
  chain("0") chain("1") chain("2") chain("3") chain("4") chain("5") chain("6") chain("7") chain("8") chain("9") \
      chain("10") chain("11")
#define REGISTERS \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12"
#define CLEAR(n) "vpxor %%xmm" n ", %%xmm" n ", %%xmm" n "\n\t"
#define INTEGER8(n) "vpdpbusd %%zmm12, %%zmm12, %%zmm" n "\n\t"
#define FLOAT32(n) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" n "\n\t"

void integer8(long count) {
  asm volatile(TWELVE(CLEAR) CLEAR("12")::: REGISTERS);
  for (; count > 0; --count) asm volatile(TWELVE(INTEGER8)::: REGISTERS);
}

void float32(long count) {
  asm volatile(TWELVE(CLEAR) CLEAR("12")::: REGISTERS);
  for (; count > 0; --count) asm volatile(TWELVE(FLOAT32)::: REGISTERS);
}

}  // namespace

constinit const PeakLoops kAvx512Peak = {integer8, 12 * 64 * 2, float32, 12 * 16 * 2};

}  // namespace monolith

#endif
