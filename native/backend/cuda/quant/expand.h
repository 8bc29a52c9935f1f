// Expansion of i-quants and ternary types for the device. The host expands their blocks (formats/gguf/expanded_types.h)
// at load time, because codebook lookups are too slow for kernels; kernels then pack the expanded blocks. Pure
// functions, which may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/gguf/expanded_types.h"

namespace monolith::cuda {

// Layout of an expanded block of 256 values, by byte offset:
//   0     d, binary16
//   2     sixteen block scales in the format of the tiles (quant/form.h)
//   18    codes: value 2 i in the low nibble of byte i, value 2 i + 1 in the high nibble
inline constexpr int kExpandedNumbersAt = 2, kExpandedCodesAt = 18, kExpandedBytes = 146;

// Returns the block size that pack_quantized() expects: the file's block size, except for i-quants and ternary types.
size_t packed_from_bytes(TensorType type);

// Expands `n_values` values (a multiple of 256) of an i-quant or ternary type from the file's blocks.
void expand_blocks(TensorType type, const std::byte* from, int64_t n_values, std::byte* to);

}  // namespace monolith::cuda
