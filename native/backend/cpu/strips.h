// The weights' layout, and the arithmetic of every product on them. Read this before any kernel.
//
// LAYOUT. A strip holds 16 consecutive rows (outputs) of a matrix; lane l of every vector is row l of
// the strip, so each output lives in one lane from start to end. A group is 4 consecutive k (inputs) of
// all 16 rows: 64 bytes [lane][4] where a value takes a byte. A strip is a few arrays, one after another
// (StripLayout holds their offsets), padded to 64 bytes; lanes past the matrix's last row are zero.
//
//   F32    values [k][lane] float                                   k padded with zeros to 16
//   F16    values [k][lane] binary16                                k padded with zeros to 16
//   BF16   values [k/2][lane][2] bfloat16                           k padded with zeros to 32
//   Q8_0   values [k/4][lane][4] byte, q + 128;   d [k/32][lane] binary16
//   Q4_0   values [k/8][lane][4] byte;            d [k/32][lane] binary16
//   Q4_K   values [k/8][lane][4] byte;            scale, minimum [k/32][lane] byte;  d, d_min [k/256][lane] binary16
//   Q6_K   values [k/8][lane][4] byte;  high [k/16][lane][4] byte;  scale [k/16][lane] int8;  d [k/256][lane] binary16
//
// 4-bit values: byte i of lane l in vector v holds k = 8v + i in its low nibble, k = 8v + 4 + i in its
// high one. Q6_K's high byte i of vector v holds the two upper bits of k = 16v + i, 16v + 4 + i,
// 16v + 8 + i and 16v + 12 + i, from the lowest bits up.
//
// ACTIVATIONS are packed per call into lines of 64 bytes (activations.h): for quantized weights a line
// is 32 signed bytes, their scale, and constants derived from their sum.
//
// ARITHMETIC. All instruction sets compute, for each output (row, lane), exactly this, whatever else is
// computed beside it. isum is exact in int32; fma rounds once; every other operation rounds to float.
//
//   Q8_0, Q4_0, each block of 32 k in order (offset = 128 or 8):
//     isum = sum (q + offset) * a  -  offset * sum a
//     acc  = fma(float(isum) * d, a_scale, acc)
//   Q4_K, each block of 32 k in order; step = d * scale, floor = d_min * minimum, both exact:
//     acc  = fma(float(sum q * a) * step, a_scale, acc)
//     acc  = fma(floor, -(a_scale * sum a), acc)
//   Q6_K, each block of 32 k in order, its halves of 16 with steps d * scale (exact):
//     isum_h = sum_h (q + 32) * a  -  32 * sum_h a
//     acc  = fma(fma(float(isum_1), step_1, float(isum_0) * step_0), a_scale, acc)
//   F32, F16, BF16: two partial sums, even and odd k, each in order; then their sum:
//     acc[k % 2] = fma(w, a, acc[k % 2]);   acc = acc[0] + acc[1]
//   BF16 where vdpbf16ps exists: activations rounded to bfloat16, to nearest, ties to even; two partial sums,
//     even and odd pairs of k, each in order; a pair is two products and sums as that instruction rounds them.
//
//   out = acc (+ bias), then old out + that if the target asks so.
//
// Quantized products are therefore the same bits on every instruction set, and so are F32 and F16; only
// BF16 differs where vdpbf16ps runs. Arithmetic::kExact stores every type as F32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/gguf/tensor_type.h"

namespace monolith {

inline constexpr int kStripRows = 16;

// Byte offsets of a strip's arrays, and its size. Absent arrays have the offset of the next one.
struct StripLayout {
  TensorType type;
  int64_t cols;          // as the matrix has them
  int64_t padded_cols;
  size_t values, high, scales, minima, d, d_min;
  size_t bytes;          // multiple of 64
};

// `cols` must be positive and a multiple of the type's block (asserted).
StripLayout strip_layout(TensorType type, int64_t cols);

}  // namespace monolith
