// Reads everything in a parsed file. Aborts if a view points outside the file or an invariant of gguf.h is violated.
// Shared by the fuzz target and the tests that use damaged files.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "formats/gguf/gguf.h"

namespace monolith::testing {

void insist(bool holds, const char* what);

// Returns a sum over all bytes that were read, so that the compiler cannot remove any read.
uint64_t touch_everything(const GgufFile& file, std::span<const std::byte> bytes);

}  // namespace monolith::testing
