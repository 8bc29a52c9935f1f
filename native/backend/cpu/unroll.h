// UNROLL before a loop whose count is known: it becomes straight code. For kernels.
#pragma once

// Loops over rows must vanish, or the accumulators are an array in memory; -O2 alone leaves them.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
