// Weight matrices in the backend's own layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// A weight matrix [rows, cols] in the backend's own layout. A matmul with weight matrix W computes y = W x.
class Matrix {
 public:
  virtual ~Matrix() = default;
  int64_t rows = 0;  // Outputs of the matmul.
  int64_t cols = 0;  // Inputs of the matmul.
  TensorType type = TensorType::kF32;
  size_t bytes = 0;  // Memory used, in bytes.
};

// A row-major matrix in host memory, in the format of GGUF files: `rows` rows of `cols` values of type `type`.
struct MatrixSource {
  TensorType type;
  int64_t rows;
  int64_t cols;
  std::span<const std::byte> data;
  bool fp8 = false;  // Convert from a float type to TensorType::kF8E4M3. Requires MemoryFeature::kFp8Weights.
  // Factors by which the output rows are multiplied, one per row; empty = no factors. Requires
  // MemoryFeature::kRowFactors.
  std::span<const float> factors = {};
  // Whether the rows form several matrices (experts or heads), only some of which an operation may use.
  bool stacked = false;
};

}  // namespace monolith
