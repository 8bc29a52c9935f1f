// Quantized weights to their layout on the device (quant/form.h), and rows of them back to floats.
#pragma once

#include <cstdint>

#include "backend/cuda/device/runtime.h"
#include "backend/cuda/quant/form.h"

namespace monolith::cuda {

// Packs `n_rows` rows, as the file has them (device, dense), as rows first_row .. of the matrix at `data`; first_row
// a multiple of kTileRows. Rows of the last tile that there are none of become zeros.
void pack_quantized(Runtime& runtime, const QuantLayout& layout, const unsigned char* file_rows, int64_t first_row,
                    int64_t n_rows, unsigned char* data);

// out[i] = row tokens[i], exactly as dequantize() has it; `tokens` device.
void embed_quantized(Runtime& runtime, const QuantLayout& layout, const unsigned char* data, const int32_t* tokens,
                     int n_rows, float* out);

}  // namespace monolith::cuda
