// Types that store several values as one number: points of a lattice (IQ1, IQ2, IQ3) or ternary digits (TQ1_0). A block
// is opened to one code for each value, which is what decoders and products go on from. TQ2_0 is here as TQ1_0 opens
// to the same codes.
#pragma once

#include <cstdint>

#include "formats/gguf/tensor_type.h"

namespace monolith {

// What codes stand for; the fourth code of the three-level types does not occur. IQ1_M: eight times a ternary digit, and
// one more or one less than that (its third bit).
inline constexpr int8_t kIq1mLevels[16] = {-7, 1, 9, 0, -9, -1, 7, 0};
// A magnitude, and its sign as the highest bit.
inline constexpr int8_t kIq2Levels[16] = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr int8_t kIq3xxsLevels[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr int8_t kIq3sLevels[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

constexpr bool is_lattice_type(TensorType type) {
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

// 256 values. With s the block's whole numbers from 0 on, values are
//   TQ1_0, TQ2_0            d * (code - 1)
//   IQ1_S                   d * (2 s + 1) * (code - 1 + delta), delta = 1/8 or -1/8
//   IQ1_M, IQ2_*            d * (2 s + 1) / 8 * level
//   IQ3_XXS                 d * (2 s + 1) / 4 * level
//   IQ3_S                   d * (2 s + 1) * level
// All products are exact in float.
struct OpenedBlock {
  uint16_t d;  // binary16
  // For each 32 values. IQ2_XXS, IQ3_XXS, IQ3_S: 2 s + 1. IQ1_S: the same, and the highest bit where delta is negative.
  // IQ1_M, IQ2_XS, IQ2_S: s of the first 16 in the low nibble, of the others in the high one. TQ*: nothing.
  uint8_t numbers[8];
  alignas(8) uint8_t codes[256];
};

// Any bytes may be opened.
template <TensorType T>
void open_block(const uint8_t* block, OpenedBlock& opened);

// The plain decoder, of one block.
template <TensorType T>
void decode_lattice(const uint8_t* block, float* out);

}  // namespace monolith
