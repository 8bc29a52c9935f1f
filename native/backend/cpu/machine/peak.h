// What the vector units can do at most, measured: the ceiling that products are set against. For benches.
#pragma once

#include "backend/cpu/cpu_backend.h"

namespace monolith {

// Multiplications and additions per second, all threads together.
struct ArithmeticPeak {
  double integer8 = 0;  // sums of products of bytes in 32 bits, the instructions that the quantized products use
  double float32 = 0;   // fused multiply-additions
};

// Runs independent chains of those instructions on `threads` threads (1 to 1024), some milliseconds each; the
// best of `repeats`. Zeros for CpuIsa::kPlain, which uses no such instructions, and on AArch64, for which there are
// no loops.
ArithmeticPeak measure_peak(CpuIsa isa, int threads, int repeats);

// Of one instruction set: `count` rounds of independent chains, and the operations in a round.
struct PeakLoops {
  void (*integer8)(long count);
  double integer8_round;
  void (*float32)(long count);
  double float32_round;
};
#if defined(__x86_64__)
extern const PeakLoops kAvx2Peak;
extern const PeakLoops kAvx512Peak;
#endif

}  // namespace monolith
