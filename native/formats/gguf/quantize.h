// Quantizes values to the types to which a model can be converted at load time. Each value is rounded to the nearest
// value that its block's scale allows. dequantize() is the inverse. Pure functions that may be called from any thread.
#pragma once

#include <cstdint>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// True for F32, Q8_0, Q4_0, Q4_K and Q6_K.
bool can_quantize(TensorType type);

// Quantizes `count` values, a multiple of the block size, to `out`. A block with a non-finite value decodes to
// non-finite values.
void quantize(TensorType type, const float* values, int64_t count, void* out);

// The number of values per block of the K-quant types. A block consists of sub-blocks that have their own quantized
// scales.
inline constexpr int kSuperBlock = 256;

// Quantize one block of kSuperBlock values to 144 bytes (Q4_K) or 210 bytes (Q6_K). Private to this directory.
void store_q4_k(const float* values, uint8_t* out);
void store_q6_k(const float* values, uint8_t* out);

}  // namespace monolith
