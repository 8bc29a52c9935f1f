// What the memory gives to plain code: the yardstick decode speed is quoted against.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace monolith {

// Bytes per second that `threads` threads reach together when each reads its own part of a buffer of
// `bytes` once, in two or four places at once, adding up what it reads; the best of `repeats` passes of both ways. Allocates the
// buffer (huge pages where the system grants them) and frees it. Errors: kInvalidArgument, kOutOfMemory.
Result<double> read_bandwidth(int threads, size_t bytes, int repeats);

}  // namespace monolith
