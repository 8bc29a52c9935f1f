// Row makers for the quantization formats of checkpoints. Each produces the rows of a weight matrix in the order in
// which the model uses them. All shapes have already been checked by the callers in quantization.cc. Immutable; may be
// used from any thread.
#pragma once

#include <cstdint>
#include <span>

#include "formats/hf/rows.h"

namespace monolith::hf {

// A grid of scales in F32, F16, BF16 or E8M0 (a power of two, OCP Microscaling Formats 1.0).
struct ScaleGrid {
  enum class Type : uint8_t { kF32, kF16, kBF16, kE8M0 };
  Type type = Type::kF32;
  std::span<const std::byte> data;
  int64_t rows = 1, cols = 1;

  float at(int64_t row, int64_t col) const;
};

// E4M3 codes in rows of `cols`, each multiplied in float32 by the scale of its block of block_rows x block_cols. The
// storage type is F8_E4M3_128 if a row divides into blocks of 128 values that each lie within one scale block, and no
// scale is extreme. Otherwise it is BF16 if all scales are powers of two of moderate size, else F32.
Rows fp8_rows(std::span<const std::byte> codes, int64_t cols, const ScaleGrid& scales, int64_t block_rows,
              int64_t block_cols);

// E2M1 codes in rows of `cols`, two per byte, low nibble first. Each code is multiplied by the E4M3 scale of its block
// of 16, which is in turn multiplied by `factor` or (with `divides`) divided by it. Stored as NVFP4, with factor() kept
// separately, if a row divides into blocks of 64 and no scale is negative or NaN. Otherwise stored as F32.
struct Fp4Matrix {
  int64_t cols = 0;
  std::span<const std::byte> codes, scales;
  float factor = 1;
  bool divides = false;
};
Rows fp4_rows(const Fp4Matrix& matrix);
// E2M1 codes in rows of `cols`, two per byte, low nibble first. Each code is multiplied by the power of two (E8M0) of
// its block of 32. Stored as MXFP4.
Rows mxfp4_rows(std::span<const std::byte> codes, int64_t cols, std::span<const std::byte> scales);

// A matrix of 4-bit or 8-bit integers. A value is (q - z) * scale, with the zero point z and the scale of the input's
// group.
struct IntegerMatrix {
  enum class Layout : uint8_t {
    kInputsPacked,   // GPTQ: [in / n, out]; a word holds n inputs, the first in the lowest bits.
    kOutputsPacked,  // AWQ: [in, out / 8]; a word holds outputs 0 2 4 6 1 3 5 7, starting at the lowest bits.
    kRowsPacked,     // compressed-tensors: [out, in / n]; a word holds n inputs, the first in the lowest bits.
  };
  Layout layout = Layout::kInputsPacked;
  int bits = 4;
  int64_t in = 0, out = 0, groups = 1;
  std::span<const std::byte> words;  // Packed int32 words.
  // Zero points as packed int32 words. GPTQ and AWQ: [groups, out / n]. compressed-tensors: [out / n, groups]. If
  // empty, every zero point is half of the code range.
  std::span<const std::byte> zeros = {};
  // The number added to each stored zero point: 1 for the original GPTQ format, which stores each zero point minus one.
  int added_to_zeros = 0;
  ScaleGrid scales = {};  // [groups, out], or [out, groups] for kRowsPacked.
  // The group of each input: int32 [in], all below `groups`. If empty, groups are consecutive ranges of inputs.
  std::span<const std::byte> group_of = {};
};
// 4-bit values are stored as Q4_0 if every zero point is 8, otherwise as Q5_0. 8-bit values are stored as Q8_0 if every
// zero point is 128. In all these cases, every scale must be exact in F16, and each block of 32 inputs must lie within
// one group. All other matrices are stored as F32.
Rows integer_rows(const IntegerMatrix& matrix);

// Returns the same matrix with F32 as its storage type.
Rows float_rows(const Rows& of);

}  // namespace monolith::hf
