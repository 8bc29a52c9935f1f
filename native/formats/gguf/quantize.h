// Values to the types that a model may be stored as while it is loaded: each to the nearest that its block's scale
// allows. The way back is dequantize(). Pure functions; any thread.
#pragma once

#include <cstdint>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// F32, Q8_0, Q4_0, Q4_K and Q6_K.
bool can_quantize(TensorType type);

// Stores `count` values (a multiple of the type's block) to `out`. Values that are not finite make blocks that are
// not, as they do in any arithmetic.
void quantize(TensorType type, const float* values, int64_t count, void* out);

}  // namespace monolith
