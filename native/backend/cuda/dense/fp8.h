// Weights in FP8 for the dense products (dense.h): every number a code of e4m3 (base/float8.h), every row of the matrix
// a binary32 scale, made of floats at load. Read as binary16 they are multiplied with activations in binary16, so that
// all a product does otherwise is what it does with binary16 weights, at half of the bytes.
//
// A row's scale is its largest magnitude over 448, e4m3's largest number; a weight is the e4m3 number nearest to
// weight / scale.
//
// Codes lie in the order of fragments as 16-bit weights do, two steps of k together:
// [rows/16][k/32][32 lanes][16 bytes], word j for k 8j + 2t, 8j + 2t + 1 of rows g and g + 8 (g = lane / 4,
// t = lane % 4). Each half of a word is one k: the code of row g has the bits where binary16 has its sign, the four
// lower bits of its exponent and its upper three of mantissa (15 and 13 .. 7), that of row g + 8 the others (14 and
// 6 .. 0). As binary16 a code is its number times 2^-8,
// subnormals included, which the scales make good: in memory they are 2^8 times as large.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/language.h"
#include "backend/cuda/device/runtime.h"
#include "formats/gguf/tensor_type.h"

namespace monolith::cuda {

inline constexpr float kFp8Raise = 256.0f;

// Of a row whose largest magnitude is `most`: 0 and what is near it take one that divides by nothing too small.
MONOLITH_HOST_DEVICE float fp8_scale(float most) {
  constexpr float kLeast = 0x1p-110f;
  const float scale = most / 448.0f;
  return scale > kLeast ? scale : kLeast;
}

// The bits of a code in its half of a word.
MONOLITH_HOST_DEVICE uint32_t fp8_bits(uint8_t code, bool upper) {
  const uint32_t sign = code >> 7, magnitude = code & 0x7fu;
  return upper ? sign << 14 | magnitude : sign << 15 | magnitude << 7;
}

// Of a word: row g's pair of binary16 numbers, and row g + 8's.
MONOLITH_HOST_DEVICE Words2 fp8_halves(uint32_t word) {
  return {word & 0xbf80bf80u, (word << 7 & 0x3f803f80u) | (word << 1 & 0x80008000u)};
}

// Where the parts of a matrix are.
struct Fp8Matrix {
  unsigned char* codes;
  float* scales;      // one per row
  uint32_t* refused;  // 0, or one more than the number of a row with a weight that is not finite
};
// `memory`: fp8_bytes() of it, zeros at first.
size_t fp8_bytes(int64_t rows, int64_t cols);
Fp8Matrix fp8_matrix(const void* memory, int64_t rows, int64_t cols);

// Rows first_row .. of the matrix, first_row a multiple of 16, of `n_rows` rows of floats of `type` as the file has
// them (device, dense).
void pack_fp8(Runtime& runtime, const Fp8Matrix& matrix, TensorType type, const unsigned char* rows, int64_t first_row,
              int64_t n_rows, int64_t cols);

// out[i] = row tokens[i]; `tokens` device.
void embed_fp8(Runtime& runtime, const Fp8Matrix& table, int64_t cols, const int32_t* tokens, int n_rows, float* out);

}  // namespace monolith::cuda
