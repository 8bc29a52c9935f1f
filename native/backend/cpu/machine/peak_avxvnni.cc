// See peak.h. Eight chains hide the latency of the 8-bit dot product. For floats, the vector units are the same as with
// AVX2.
#if defined(__AVXVNNI__)

#include "backend/cpu/machine/peak.h"

namespace monolith {
namespace {

#define EIGHT(chain) chain("0") chain("1") chain("2") chain("3") chain("4") chain("5") chain("6") chain("7")
#define REGISTERS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm12"
#define CLEAR(n) "vpxor %%xmm" n ", %%xmm" n ", %%xmm" n "\n\t"
#define INTEGER8(n) "%{vex%} vpdpbusd %%ymm12, %%ymm12, %%ymm" n "\n\t"
#define FLOAT32(n) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" n "\n\t"

// The contents of the registers do not affect the run time.
void integer8(long count) {
  asm volatile(EIGHT(CLEAR) CLEAR("12")::: REGISTERS);
  for (; count > 0; --count) asm volatile(EIGHT(INTEGER8) EIGHT(INTEGER8)::: REGISTERS);
}

void float32(long count) {
  asm volatile(EIGHT(CLEAR) CLEAR("12")::: REGISTERS);
  for (; count > 0; --count) asm volatile(EIGHT(FLOAT32) EIGHT(FLOAT32)::: REGISTERS);
}

}  // namespace

constinit const PeakLoops kAvxVnniPeak = {integer8, 16 * 32 * 2, float32, 16 * 8 * 2};

}  // namespace monolith

#endif
