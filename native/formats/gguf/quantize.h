// Quantizes values to the types that a model can be converted to at load time. Each value is rounded to the nearest one
// that its block scale allows. dequantize() is the inverse. Pure functions; can be called from any thread.
#pragma once

#include <cstdint>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// True for F32, Q8_0, Q4_0, Q4_K and Q6_K.
bool can_quantize(TensorType type);

// Quantizes `count` values (a multiple of the block size) to `out`. A block with values that are not finite decodes to
// values that are not finite.
void quantize(TensorType type, const float* values, int64_t count, void* out);

}  // namespace monolith
