// Between GGUF's row-major blocks and strips (layout: strips.h). Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/matmul/strips.h"

namespace monolith {

// Writes one strip from `n_rows` (1 .. 16) rows as GGUF stores them, `row_bytes` apart. `strip` must be zero
// where n_rows < 16 (fresh memory is). If layout.type is F32 and `source_type` is not, rows are dequantized;
// otherwise the two are equal. Writes layout.records bytes of `strip` and layout.halves of `halves` only.
void pack_strip(TensorType source_type, const std::byte* rows, size_t row_bytes, int n_rows, const StripLayout& layout,
                std::byte* strip, std::byte* halves);

// Row `lane` of a strip as floats, the bits dequantize() gives for the source row.
void unpack_row(const StripLayout& layout, const std::byte* strip, const std::byte* halves, int lane, float* out);

}  // namespace monolith
