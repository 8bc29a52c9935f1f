// The input of a product as its kernels read it: rows of activations converted once, to 16 bits (dense.h) or to 8-bit
// blocks (activations_int8.h). Where a row is computed for products alone, what computes it can write this form itself,
// bit for bit what converting it afterwards would give.
#pragma once

#include <cstdint>

#include "backend/cuda/matmul/matrix.h"

namespace monolith::cuda {

enum class InputForm : uint8_t {
  kFloats,  // as they are
  kBf16,
  kF16,  // each row divided by a power of two of its own
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

// Where it goes, in device memory: small, passed to kernels by value. kFloats: nowhere.
struct ProductInput {
  InputForm form = InputForm::kFloats;
  int32_t blocks = 0;         // of a row: 64 values each of 16 bits, 32 of 8. Those past its end are zeros
  int32_t column_groups = 0;  // 16 bits: of 8 rows
  void* data = nullptr;       // 8 bits: Int8Block
  float* scales = nullptr;    // kF16: one per row
};

}  // namespace monolith::cuda
