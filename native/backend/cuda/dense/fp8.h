// FP8 weights for the GEMMs of dense.h. Each value is an e4m3 code (base/float8.h), and each matrix row has a float32
// scale; both are computed from floats at load time. The codes are expanded to binary16 and multiplied with binary16
// activations. Everything else is the same as for binary16 weights, but the weights take half as many bytes.
//
// The scale of a row is its largest magnitude divided by 448, the largest e4m3 number. A weight is stored as the e4m3
// number nearest to weight / scale.
//
// Codes are stored in fragment order like 16-bit weights, with two steps of k together: [rows/16][k/32][32 lanes][16
// bytes]. Word j holds k = 8j + 2t and 8j + 2t + 1 of rows g and g + 8 (g = lane / 4, t = lane % 4). Each half of a
// word belongs to one k. The code of row g occupies the bits where binary16 has its sign, the lower four bits of the
// exponent and the upper three of the mantissa (bits 15 and 13 .. 7). The code of row g + 8 occupies the remaining bits
// (14 and 6 .. 0). Read as binary16, a code is 2^-8 times its value, including subnormals. The scales in memory
// compensate: they are multiplied by 2^8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/language.h"
#include "backend/cuda/device/runtime.h"
#include "formats/gguf/tensor_type.h"

namespace monolith::cuda {

inline constexpr float kFp8Raise = 256.0f;

// Returns the scale of a row whose largest magnitude is `most`. Near zero, a lower bound avoids division by tiny
// numbers.
MONOLITH_HOST_DEVICE float fp8_scale(float most) {
  constexpr float kMin = 0x1p-110f;
  const float scale = most / 448.0f;
  return scale > kMin ? scale : kMin;
}

// Returns the bits that represent a code in its half of a word.
MONOLITH_HOST_DEVICE uint32_t fp8_bits(uint8_t code, bool upper) {
  const uint32_t sign = code >> 7, magnitude = code & 0x7fu;
  return upper ? sign << 14 | magnitude : sign << 15 | magnitude << 7;
}

// Expands a word to two binary16 values of row g and two of row g + 8.
MONOLITH_HOST_DEVICE Words2 fp8_halves(uint32_t word) {
  return {word & 0xbf80bf80u, (word << 7 & 0x3f803f80u) | (word << 1 & 0x80008000u)};
}

// Pointers to the parts of a matrix.
struct Fp8Matrix {
  unsigned char* codes;
  float* scales;      // One per row.
  uint32_t* refused;  // 0, or 1 plus the index of a row with a non-finite weight.
};
// `memory` has fp8_bytes() bytes, initially zero.
size_t fp8_bytes(int64_t rows, int64_t cols);
Fp8Matrix fp8_matrix(const void* memory, int64_t rows, int64_t cols);

// Packs `n_rows` rows of floats of type `type` (device memory, contiguous, as in the file) into the matrix, starting at
// row first_row, a multiple of 16.
void pack_fp8(Runtime& runtime, const Fp8Matrix& matrix, TensorType type, const unsigned char* rows, int64_t first_row,
              int64_t n_rows, int64_t cols);

// Sets out[i] to row tokens[i] of `table`. `tokens` is in device memory.
void embed_fp8(Runtime& runtime, const Fp8Matrix& table, int64_t cols, const int32_t* tokens, int n_rows, float* out);

}  // namespace monolith::cuda
