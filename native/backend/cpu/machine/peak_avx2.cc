// See peak.h. AVX2 accumulates byte products with three instructions: vpmaddubsw, vpmaddwd, vpaddd. Eight chains hide
// the latency of both the integer and the floating-point accumulation. Register renaming separates the temporaries.
#if defined(__AVX2__)

#include "backend/cpu/machine/peak.h"

namespace monolith {
namespace {

#define EIGHT(chain)                                                                                              \
  chain("0", "8") chain("1", "9") chain("2", "8") chain("3", "9") chain("4", "8") chain("5", "9") chain("6", "8") \
      chain("7", "9")
#define REGISTERS \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13"
#define CLEAR(n, unused) "vpxor %%xmm" n ", %%xmm" n ", %%xmm" n "\n\t"
#define INTEGER8(n, t)                    \
  "vpmaddubsw %%ymm12, %%ymm12, %%ymm" t  \
  "\n\t"                                  \
  "vpmaddwd %%ymm12, %%ymm" t ", %%ymm" t \
  "\n\t"                                  \
  "vpaddd %%ymm" t ", %%ymm" n ", %%ymm" n "\n\t"
#define FLOAT32(n, unused) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" n "\n\t"

// The contents of the registers do not affect the run time.
void integer8(long count) {
  asm volatile(EIGHT(CLEAR) CLEAR("12", "")::: REGISTERS);
  for (; count > 0; --count) asm volatile(EIGHT(INTEGER8)::: REGISTERS);
}

void float32(long count) {
  asm volatile(EIGHT(CLEAR) CLEAR("12", "")::: REGISTERS);
  for (; count > 0; --count) asm volatile(EIGHT(FLOAT32) EIGHT(FLOAT32)::: REGISTERS);
}

}  // namespace

constinit const PeakLoops kAvx2Peak = {integer8, 8 * 32 * 2, float32, 16 * 8 * 2};

}  // namespace monolith

#endif
