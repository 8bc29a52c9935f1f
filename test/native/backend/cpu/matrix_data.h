// Random weight matrices of every type, for tests. All bit patterns of quantized values occur in them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "formats/gguf/tensor_type.h"

inline constexpr monolith::TensorType kAllTypes[] = {
    monolith::TensorType::kF32,     monolith::TensorType::kF16,    monolith::TensorType::kBF16,
    monolith::TensorType::kQ8_0,    monolith::TensorType::kQ4_0,   monolith::TensorType::kQ4_1,
    monolith::TensorType::kQ5_0,    monolith::TensorType::kQ5_1,   monolith::TensorType::kIQ4_NL,
    monolith::TensorType::kMXFP4,   monolith::TensorType::kQ2_K,   monolith::TensorType::kQ3_K,
    monolith::TensorType::kQ4_K,    monolith::TensorType::kQ5_K,   monolith::TensorType::kQ6_K,
    monolith::TensorType::kIQ4_XS,  monolith::TensorType::kIQ1_S,  monolith::TensorType::kIQ1_M,
    monolith::TensorType::kIQ2_XXS, monolith::TensorType::kIQ2_XS, monolith::TensorType::kIQ2_S,
    monolith::TensorType::kIQ3_XXS, monolith::TensorType::kIQ3_S,  monolith::TensorType::kTQ1_0,
    monolith::TensorType::kTQ2_0,   monolith::TensorType::kNVFP4};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t bits();
  // Returns a random number, uniform in [-1, 1).
  float uniform() { return static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f; }

 private:
  uint64_t state_;
};

// Position and size, in bytes, of the floating-point scales in a quantized block: d, d_min (or m), or the exponent in
// MXFP4.
struct BlockScales {
  int at, bytes;
};
BlockScales block_scales(monolith::TensorType type);

// Returns the product of a block's largest code and its largest scale, for d = 1.
float largest_value(monolith::TensorType type);

// Returns rows x cols values of `type` with magnitudes of about `size`, which is a power of two.
std::vector<std::byte> matrix_data(monolith::TensorType type, int64_t rows, int64_t cols, uint64_t seed,
                                   float size = 1);
