// The matmul input formats: rows of activations that are converted once, to 16 bits (dense.h) or to 8-bit blocks
// (activations_int8.h). If a row is read only by matmuls, the kernel that computes it can write the input format
// directly. The bits are the same as with a separate conversion.
#pragma once

#include <cstdint>

#include "backend/cuda/matmul/matrix.h"

namespace monolith::cuda {

enum class InputForm : uint8_t {
  kFloats,  // Not converted.
  kBf16,
  kF16,  // Each row is divided by its own power of two.
  kInt8,
};

constexpr InputForm input_form(Format format) {
  switch (format) {
    case Format::kBf16: return InputForm::kBf16;
    case Format::kF16:
    case Format::kFp8: return InputForm::kF16;
    case Format::kQuant: return InputForm::kInt8;
    case Format::kF32: break;
  }
  return InputForm::kFloats;
}

// Describes the buffer in device memory into which a kernel writes converted rows. Small enough to be passed to kernels
// by value. If the format is kFloats, there is no such buffer.
struct ProductInput {
  InputForm form = InputForm::kFloats;
  // Number of blocks per row. A block has 64 values in the 16-bit formats and 32 values in the 8-bit format. Values
  // beyond the row's end are zero.
  int32_t blocks = 0;
  int32_t column_groups = 0;  // 16-bit formats: number of groups of 8 rows.
  void* data = nullptr;       // 8-bit format: an array of Int8Block.
  float* scales = nullptr;    // kF16 only: one scale per row.
};

}  // namespace monolith::cuda
