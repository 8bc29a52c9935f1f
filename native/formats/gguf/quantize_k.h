// Blocks of 256 values whose parts have quantized scales of their own. Pure functions; any thread.
#pragma once

#include <cstdint>

namespace monolith {

inline constexpr int kSuperBlock = 256;

// One block of 256 values to its 144 and 210 bytes. See quantize.h.
void store_q4_k(const float* values, uint8_t* out);
void store_q6_k(const float* values, uint8_t* out);

}  // namespace monolith
