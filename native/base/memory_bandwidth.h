// Measures the memory bandwidth of a plain read loop, for comparison with decode speed.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace monolith {

// Returns the total bytes per second that `threads` threads reach. Each thread reads its own part of a buffer of
// `bytes` once, from two or four locations in parallel, and adds up the words. The result is the best of `repeats`
// passes of both variants. Allocates the buffer (in huge pages if the system provides them) and frees it. Errors:
// kInvalidArgument, kOutOfMemory.
Result<double> read_bandwidth(int threads, size_t bytes, int repeats);

}  // namespace monolith
