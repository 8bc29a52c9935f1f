// Quantization to blocks of 256 values whose sub-blocks have quantized scales of their own. Pure functions; can be
// called from any thread.
#pragma once

#include <cstdint>

namespace monolith {

inline constexpr int kSuperBlock = 256;

// Quantize one block of 256 values to 144 bytes (Q4_K) or 210 bytes (Q6_K). See quantize.h.
void store_q4_k(const float* values, uint8_t* out);
void store_q6_k(const float* values, uint8_t* out);

}  // namespace monolith
