// Weight matrices as a backend keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// A weight matrix [rows, cols] in the backend's own layout. Computes y = W x.
class Matrix {
 public:
  virtual ~Matrix() = default;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  TensorType type = TensorType::kF32;
  size_t bytes = 0;  // memory held
};

// Row-major source as GGUF stores it: `rows` rows of `cols` values of `type`. Host memory.
struct MatrixSource {
  TensorType type;
  int64_t rows;
  int64_t cols;
  std::span<const std::byte> data;
  bool fp8 = false;  // floats, to be kept as TensorType::kF8E4M3: keeps_fp8() only
  // of each row, by which its products are multiplied; none: 1. keeps_factors() only
  std::span<const float> factors = {};
};

}  // namespace monolith
