// Conversion between GGUF's row-major blocks and panels (layout: panels.h). The functions have no side effects and may
// be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/matmul/panels.h"

namespace monolith {

// Converts `n_rows` (1 to 16) rows in GGUF format, which are `row_bytes` apart, to one panel. If n_rows < 16, the
// panel's memory must be zeroed, like newly allocated memory. If layout.type is F32 and `source_type` is not, the rows
// are dequantized. Otherwise, the two types must be equal. Writes only layout.records bytes of `panel` and
// layout.block_scales bytes of `block_scales`.
void pack_panel(TensorType source_type, const std::byte* rows, size_t row_bytes, int n_rows, const PanelLayout& layout,
                std::byte* panel, std::byte* block_scales);

// Writes row `lane` of a panel as floats, with the same bits as dequantize() for the source row.
void unpack_row(const PanelLayout& layout, const std::byte* panel, const std::byte* block_scales, int lane, float* out);

}  // namespace monolith
