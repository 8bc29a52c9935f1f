// Packs quantized weights into their device layout (quant/form.h), and converts rows of packed weights back to floats.
#pragma once

#include <cstdint>

#include "backend/cuda/device/runtime.h"
#include "backend/cuda/quant/form.h"

namespace monolith::cuda {

// Packs `n_rows` rows (device memory, contiguous, as in the file) into the matrix at `data`, starting at row first_row,
// a multiple of kTileRows. Missing rows of the last tile become zeros.
void pack_quantized(Runtime& runtime, const QuantLayout& layout, const unsigned char* file_rows, int64_t first_row,
                    int64_t n_rows, unsigned char* data);

// Sets out[i] to row tokens[i] of the matrix, with exactly the values of dequantize(). `tokens` is in device memory.
void embed_quantized(Runtime& runtime, const QuantLayout& layout, const unsigned char* data, const int32_t* tokens,
                     int n_rows, float* out);

}  // namespace monolith::cuda
