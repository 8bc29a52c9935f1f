// Measures the peak arithmetic throughput of the vector units, the upper bound with which benchmarks compare matmuls.
#pragma once

#include "backend/cpu/cpu_backend.h"

namespace monolith {

// Peak number of multiplications and additions per second, summed over all threads.
struct ArithmeticPeak {
  double integer8 = 0;  // Byte products accumulated in 32 bits, with the instructions of the quantized matmul.
  double float32 = 0;   // Fused multiply-adds.
};

// Runs independent chains of the instructions that `isa` uses in matmuls on `threads` threads (1 to 1024) for a few
// milliseconds each, and returns the best of `repeats` runs. Returns zeros for CpuIsa::kPlain, which uses no vector
// instructions, and on AArch64, which has no measuring loops.
ArithmeticPeak measure_peak(CpuIsa isa, int threads, int repeats);

// Measuring loops for one instruction set: functions that run `count` rounds of independent chains, and the number of
// operations per round.
struct PeakLoops {
  void (*integer8)(long count);
  double integer8_round;
  void (*float32)(long count);
  double float32_round;
};
// The measuring loop for tile instructions. There is none for floats, because CpuIsa::kAmx uses the vector units for
// them.
struct TilePeak {
  void (*integer8)(long count);
  double integer8_round;
};
#if defined(__x86_64__)
extern const TilePeak kAmxPeak;
extern const PeakLoops kAvx2Peak;
extern const PeakLoops kAvxVnniPeak;
extern const PeakLoops kAvx512Peak;
#endif

}  // namespace monolith
