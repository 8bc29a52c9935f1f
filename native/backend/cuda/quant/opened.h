// Lattice types on their way to the device: the host opens their blocks (formats/gguf/lattice_types.h) while they are
// loaded, as looking points up belongs to no kernel, and kernels pack what it has opened. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/gguf/lattice_types.h"

namespace monolith::cuda {

// An opened block of 256 values, as bytes:
//   0     d, binary16
//   2     sixteen numbers, as tiles have them (quant/form.h)
//   18    codes: value 2 i in the low nibble of byte i, 2 i + 1 in the high one
inline constexpr int kOpenedNumbersAt = 2, kOpenedCodesAt = 18, kOpenedBytes = 146;

// Bytes of a block as pack_quantized() takes it: those of the file but for lattice types.
size_t packed_from_bytes(TensorType type);

// `n_values` of `type`, a lattice type, a multiple of 256, from the file's blocks to opened ones.
void open_blocks(TensorType type, const std::byte* from, int64_t n_values, std::byte* to);

}  // namespace monolith::cuda
