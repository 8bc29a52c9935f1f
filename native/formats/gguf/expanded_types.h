// Types in which one stored number encodes several values: the i-quants with a codebook (IQ1, IQ2, IQ3) and the ternary
// type TQ1_0. A block is expanded to one code per value, which is the input format of the decoders and matmul kernels.
// TQ2_0 is handled here too because it expands to the same codes as TQ1_0.
#pragma once

#include <cstdint>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// Levels by code; three-level types do not use the fourth code. For IQ1_M, a level is eight times a ternary digit, plus
// or minus one (selected by bit 2 of the code).
inline constexpr int8_t kIq1mLevels[16] = {-7, 1, 9, 0, -9, -1, 7, 0};
// The highest bit of a code is the sign of the level; the other bits select its magnitude.
inline constexpr int8_t kIq2Levels[16] = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr int8_t kIq3xxsLevels[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr int8_t kIq3sLevels[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

constexpr bool is_expanded_type(TensorType type) {
  switch (type) {
    case TensorType::kIQ1_S:
    case TensorType::kIQ1_M:
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
    case TensorType::kIQ3_XXS:
    case TensorType::kIQ3_S:
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0: return true;
    default: return false;
  }
}

// An expanded block of 256 values. With s the integer block scale (starting at 0), the values are
//   TQ1_0, TQ2_0            d * (code - 1)
//   IQ1_S                   d * (2 s + 1) * (code - 1 + delta), delta = 1/8 or -1/8
//   IQ1_M, IQ2_*            d * (2 s + 1) / 8 * level
//   IQ3_XXS                 d * (2 s + 1) / 4 * level
//   IQ3_S                   d * (2 s + 1) * level
// All products are exact in float32.
struct ExpandedBlock {
  uint16_t d;  // An IEEE binary16 number.
  // The scale of each group of 32 values. IQ2_XXS, IQ3_XXS and IQ3_S store 2 s + 1. IQ1_S also stores 2 s + 1, with the
  // highest bit set if delta is negative. IQ1_M, IQ2_XS and IQ2_S store s of the first 16 values in the low nibble and
  // s of the last 16 in the high nibble. TQ1_0 and TQ2_0 do not use this field.
  uint8_t numbers[8];
  alignas(8) uint8_t codes[256];
};

// Expands a block. Any byte sequence is a valid input.
template <TensorType T>
void expand_block(const uint8_t* block, ExpandedBlock& expanded);

// Decodes one block. This is the scalar reference implementation.
template <TensorType T>
void decode_expanded(const uint8_t* block, float* out);

}  // namespace monolith
