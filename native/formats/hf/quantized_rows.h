// Matrices as quantized checkpoints store them, row by row of what the network multiplies with. Shapes are checked by
// those who make these (quantization.cc). Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "formats/hf/rows.h"

namespace monolith::hf {

// A number for each cell of a grid, F32, F16, BF16 or E8M0 (a power of two, OCP Microscaling Formats 1.0).
struct ScaleGrid {
  enum class Type : uint8_t { kF32, kF16, kBF16, kE8M0 };
  Type type = Type::kF32;
  std::span<const std::byte> data;
  int64_t rows = 1, cols = 1;

  float at(int64_t row, int64_t col) const;
};

// E4M3 codes of `cols` a row, each times the scale of its block of block_rows x block_cols: the product in float32.
// F8_E4M3_128 holds codes and scales where rows are whole blocks of 128 within those of the scales and no scale is extreme;
// otherwise BF16 holds the products if all scales are powers of two of moderate size, else F32.
Rows fp8_rows(std::span<const std::byte> codes, int64_t cols, const ScaleGrid& scales, int64_t block_rows,
              int64_t block_cols);

// E2M1 codes of `cols` a row, two in a byte, the first lower, each times a step: the E4M3 scale of its block of 16 times
// `factor`, or over it. NVFP4 holds codes and scales where rows are whole blocks of 64 and no scale is negative or no number,
// with factor() beside them; F32 the products.
struct Fp4Matrix {
  int64_t cols = 0;
  std::span<const std::byte> codes, scales;
  float factor = 1;
  bool divides = false;
};
Rows fp4_rows(const Fp4Matrix& matrix);
// E2M1 codes of `cols` a row, packed likewise, each times the power of two (E8M0) of its block of 32: MXFP4 holds them.
Rows mxfp4_rows(std::span<const std::byte> codes, int64_t cols, std::span<const std::byte> scales);

// Integers of 4 or 8 bits, each less the zero of its group of inputs, times the group's scale.
struct IntegerMatrix {
  enum class Layout : uint8_t {
    kInputsPacked,   // GPTQ: [in / n, out], a word holds n inputs, the first lowest
    kOutputsPacked,  // AWQ: [in, out / 8], a word holds outputs 0 2 4 6 1 3 5 7 from the lowest bits on
    kRowsPacked,     // compressed-tensors: [out, in / n], likewise the first lowest
  };
  Layout layout = Layout::kInputsPacked;
  int bits = 4;
  int64_t in = 0, out = 0, groups = 1;
  std::span<const std::byte> words;  // int32
  // GPTQ, AWQ: int32 [groups, out / n]; compressed-tensors: [out / n, groups]; none: half of the range
  std::span<const std::byte> zeros = {};
  int added_to_zeros = 0;                    // GPTQ's first format stores them less one
  ScaleGrid scales = {};                     // [groups, out], or [out, groups] where rows are packed
  std::span<const std::byte> group_of = {};  // int32 [in], each below `groups`; none: groups follow one another
};
// Values that q - z takes with 4 bits are held by Q4_0 where every zero is 8, else by Q5_0; those of 8 bits by Q8_0 where
// every zero is 128: as long as F16 holds every scale, and blocks of 32 inputs lie within a group. Otherwise by F32.
Rows integer_rows(const IntegerMatrix& matrix);

// Whatever the matrix is held by, as F32.
Rows float_rows(const Rows& of);

}  // namespace monolith::hf
