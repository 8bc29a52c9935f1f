// UNROLL before a loop with a constant trip count unrolls it completely. For use in kernels.
#pragma once

// Loops over rows must be unrolled, which -O2 alone does not do; otherwise, the accumulators become an array in memory.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
