// Weight matrices in the backend's own layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// A weight matrix [rows, cols] in the backend's own layout. A matmul with it computes y = W x.
class Matrix {
 public:
  virtual ~Matrix() = default;
  int64_t rows = 0;  // Outputs of the matmul.
  int64_t cols = 0;  // Inputs of the matmul.
  TensorType type = TensorType::kF32;
  size_t bytes = 0;  // Memory used, in bytes.
};

// A row-major matrix as GGUF stores it: `rows` rows of `cols` values of `type`. Host memory.
struct MatrixSource {
  TensorType type;
  int64_t rows;
  int64_t cols;
  std::span<const std::byte> data;
  bool fp8 = false;  // Convert from a float type to TensorType::kF8E4M3. Requires MemoryFeature::kFp8Weights.
  // Factors, one per output row; empty = no factors. Requires MemoryFeature::kRowFactors.
  std::span<const float> factors = {};
  // Whether the rows belong to several matrices (experts, heads), of which an operation may use only some.
  bool stacked = false;
};

}  // namespace monolith
