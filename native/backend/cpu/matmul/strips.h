// The weights' layout, and the arithmetic of every product on them. Read this before any kernel.
//
// LAYOUT. A strip holds 16 consecutive rows (outputs) of a matrix; lane l of every vector is row l of
// the strip, so each output lives in one lane from start to end. A group is 4 consecutive k (inputs) of
// all 16 rows: 64 bytes [lane][4] where a value takes a byte. Lanes past the matrix's last row are zero.
//
//   F32    values [k][lane] float                                   k padded with zeros to 16
//   F16    values [k][lane] binary16                                k padded with zeros to 16
//   BF16   values [k/2][lane][2] bfloat16                           k padded with zeros to 32
//   F8_E4M3_128  of each 128 k: 256 times the scales [lane] float, then codes [k][lane]
//
// A strip of quantized weights is a row of records, each of 32 k (256 where the file's blocks have 256), and its halves:
// the arrays d and d_min of the whole strip, padded to 64 bytes. A matrix has the records of all its strips, and behind
// them the halves of all. So a thread that takes strips in turn reads two runs of memory without a gap: Zen 4's prefetcher
// loses its place at one, and halves that lay behind each strip's records took a third from one stream (24 of 35 GB/s a
// core, and 34 without). A record's arrays follow each other; StripLayout holds all offsets.
//
//            in each record, k from its first                            halves
//   Q8_0     low [k/4]                                                   d [k/32][lane] binary16
//   Q4_0     low [k/8]                                                   d [k/32][lane] binary16
//   Q4_1     low [k/8]                                                   d, d_min [k/32][lane] binary16
//   Q5_0     low [k/8]   high [k/32]                                     d [k/32][lane] binary16
//   Q5_1     low [k/8]   high [k/32]                                     d, d_min [k/32][lane] binary16
//   IQ4_NL   low [k/8]                                                   d [k/32][lane] binary16
//   MXFP4    low [k/8]                                                   d [k/32][lane] byte
//   Q2_K     low [k/16]               scale [k/16][lane] byte            d, d_min [k/256][lane] binary16
//   Q3_K     low [k/16]  high [k/32]  scale [k/16][lane] int8            d [k/256][lane] binary16
//   Q4_K     low [k/8]                scale, minimum [k/32][lane] byte   d, d_min [k/256][lane] binary16
//   Q5_K     low [k/8]   high [k/32]  scale, minimum [k/32][lane] byte   d, d_min [k/256][lane] binary16
//   Q6_K     low [k/8]   high [k/16]  scale [k/16][lane] int8            d [k/256][lane] binary16
//   IQ4_XS   low [k/8]                scale [k/32][lane] int8            d [k/256][lane] binary16
//   NVFP4    low [k/8]                scale [k/16][lane] byte (records of 64 k)
//   TQ1_0    low [k/16]                                                  d [k/256][lane] binary16
//   TQ2_0    likewise
//   IQ1_S    low [k/16]               scale [k/32][lane] byte            d [k/256][lane] binary16
//   IQ1_M    low [k/16]  high [k/32]  scale [k/32][lane] byte            d [k/256][lane] binary16
//   IQ2_*    low [k/16]  high [k/32]  scale [k/32][lane] byte            d [k/256][lane] binary16
//   IQ3_*    low [k/8]                scale [k/32][lane] byte            d [k/256][lane] binary16
//
// Lattice types and TQ1_0 are opened to a code for each value (formats/gguf/lattice_types.h): looking points up takes
// longer than the bits that it would save take from memory. They hold, in bits a value, of the file and here:
//   IQ1_S 1.56 2.31   IQ2_XXS 2.06 3.31   IQ2_S   2.56 3.31   IQ3_S 3.44 4.31
//   IQ1_M 1.75 3.31   IQ2_XS  2.31 3.31   IQ3_XXS 3.06 4.31   TQ1_0 1.69 2.06
//
// low and high are vectors [lane][4] byte. The code of k, an unsigned number, is cut into parts of 8, 4, 2 or 1
// low bits and 2 or 1 high ones. A byte holds as many parts as fit, of groups one after another, from its lowest
// bits up: of 4-bit parts, byte i of lane l in vector v is k = 8v + i (low nibble) and 8v + 4 + i.
// The d of MXFP4 is the exponent e of a scale 2^(e - 128). The d_min of Q4_1 and Q5_1 is the file's minimum,
// negated, so that all minima are subtracted. Q2_K's scale byte has the scale in its low nibble, the minimum
// in the high one. Scale bytes of lattice types are OpenedBlock::numbers; NVFP4's are nvfp4_scale_bits(). What the numbers mean for each type is told once, in strip_form().
//
// ACTIVATIONS are packed per call into lines of 64 bytes (activations.h): for quantized weights a line
// is 32 signed bytes, their scale, and constants derived from their sum.
//
// ARITHMETIC. All instruction sets compute, for each output (row, lane), exactly this, whatever else is
// computed beside it. q is the whole number that the code stands for: code - offset, or a level from the type's
// table. Sums of q * a are exact in int32; fma rounds once; every other operation rounds to float.
//
//   step  = d, or d * scale (exact), or that times a power of two: one for each 32 k, for Q2_K, Q3_K, Q6_K, NVFP4,
//           IQ1_M, IQ2_XS and IQ2_S one for each 16
//   floor = d_min, or d_min * minimum (exact), likewise; for IQ1_S step / 8 or -step / 8
//
//   Each block of 32 k in order:
//     acc  = fma(float(sum q * a) * step, a_scale, acc)
//     acc  = fma(floor, -(a_scale * sum a), acc)                                    where there are minima
//   or, with its halves of 16:
//     acc  = fma(fma(float(sum_1 q * a), step_1, float(sum_0 q * a) * step_0), a_scale, acc)
//     acc  = fma(floor_0, -(a_scale * sum_0 a), acc), then the same with floor_1, sum_1 where there are minima
//   F8_E4M3_128: w = (code as binary16, which is 2^-8 of its value) * (256 * scale), rounded once; then as F32.
//   F32, F16, BF16: two partial sums, even and odd k, each in order; then their sum:
//     acc[k % 2] = fma(w, a, acc[k % 2]);   acc = acc[0] + acc[1]
//   BF16 where vdpbf16ps exists: activations rounded to bfloat16, to nearest, ties to even; two partial sums,
//     even and odd pairs of k, each in order; a pair is two products and sums as that instruction rounds them.
//
//   out = acc (* factor of the row) (+ bias), then old out + that if the target asks so.
//
// Quantized products are therefore the same bits on every instruction set, and so are F32 and F16; only
// BF16 differs where vdpbf16ps runs. Arithmetic::kExact stores every type as F32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/gguf/lattice_types.h"
#include "formats/gguf/tensor_type.h"

namespace monolith {

inline constexpr int kStripRows = 16;

// What a quantized type's numbers are. For constant expressions: kernels are made from it.
struct StripForm {
  int low_bits, high_bits;  // of a code; 0 for types that are not quantized
  int offset;               // q = code - offset,
  // or levels_of()[code] where there are any
  enum Levels : uint8_t { kNone, kIq4, kMxfp4, kIq1m, kIq2, kIq3xxs, kIq3s } levels;
  int record;  // k in a record: what shares a d in the file's K-quants, 32 for the others
  int step;    // k that share a step (and a floor): 32 or 16
  enum Scale : uint8_t {
    kHalf,   // step = d
    kPower,  // step = 2^(d - 128)
    kUnsigned,
    kSigned,  // step = d * scale
    kNibble,  // step = d * (scale byte's low nibble), floor = d_min * (its high nibble)
    // step = d * (scale byte's low nibble), floor = step / 8 if its highest bit is set, or -step / 8
    kDelta,
    // step = d * (2 s + 1) * factor, s the scale byte's low nibble for the first 16 k, its high one for the others
    kOddPair,
    kE4m3,  // step = nvfp4_step(scale)
  } scale;
  bool minima;
  float factor = 1;  // of kUnsigned, too: a power of two
};
constexpr StripForm strip_form(TensorType type) {
  using enum StripForm::Scale;
  using enum StripForm::Levels;
  switch (type) {
    case TensorType::kQ8_0: return {8, 0, 128, kNone, 32, 32, kHalf, false};
    case TensorType::kQ4_0: return {4, 0, 8, kNone, 32, 32, kHalf, false};
    case TensorType::kQ4_1: return {4, 0, 0, kNone, 32, 32, kHalf, true};
    case TensorType::kQ5_0: return {4, 1, 16, kNone, 32, 32, kHalf, false};
    case TensorType::kQ5_1: return {4, 1, 0, kNone, 32, 32, kHalf, true};
    case TensorType::kIQ4_NL: return {4, 0, 0, kIq4, 32, 32, kHalf, false};
    case TensorType::kMXFP4: return {4, 0, 0, kMxfp4, 32, 32, kPower, false};
    case TensorType::kQ2_K: return {2, 0, 0, kNone, 256, 16, kNibble, true};
    case TensorType::kQ3_K: return {2, 1, 4, kNone, 256, 16, kSigned, false};
    case TensorType::kQ4_K: return {4, 0, 0, kNone, 256, 32, kUnsigned, true};
    case TensorType::kQ5_K: return {4, 1, 0, kNone, 256, 32, kUnsigned, true};
    case TensorType::kQ6_K: return {4, 2, 32, kNone, 256, 16, kSigned, false};
    case TensorType::kIQ4_XS: return {4, 0, 0, kIq4, 256, 32, kSigned, false};
    case TensorType::kNVFP4: return {4, 0, 0, kMxfp4, 64, 16, kE4m3, false};
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0: return {2, 0, 1, kNone, 256, 32, kHalf, false};
    case TensorType::kIQ1_S: return {2, 0, 1, kNone, 256, 32, kDelta, true};
    case TensorType::kIQ1_M: return {2, 1, 0, kIq1m, 256, 16, kOddPair, false, 0.125f};
    case TensorType::kIQ2_XXS: return {2, 1, 0, kIq2, 256, 32, kUnsigned, false, 0.125f};
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S: return {2, 1, 0, kIq2, 256, 16, kOddPair, false, 0.125f};
    case TensorType::kIQ3_XXS: return {4, 0, 0, kIq3xxs, 256, 32, kUnsigned, false, 0.25f};
    case TensorType::kIQ3_S: return {4, 0, 0, kIq3s, 256, 32, kUnsigned, false};
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kI32:
    case TensorType::kI64:
    case TensorType::kF8Scaled:
    case TensorType::kF8E4M3: break;
  }
  return {};
}
// Sixteen values; null where there are none. Which they are is a number in StripForm: two addresses are no constant
// expression to GCC under UBSan.
constexpr const int8_t* levels_of(StripForm::Levels levels) {
  switch (levels) {
    case StripForm::kIq4: return kIq4Levels;
    case StripForm::kMxfp4: return kMxfp4Levels;
    case StripForm::kIq1m: return kIq1mLevels;
    case StripForm::kIq2: return kIq2Levels;
    case StripForm::kIq3xxs: return kIq3xxsLevels;
    case StripForm::kIq3s: return kIq3sLevels;
    case StripForm::kNone: break;
  }
  return nullptr;
}
// The largest magnitude among them.
constexpr int largest_level(StripForm::Levels levels) {
  int largest = 0;
  for (int i = 0; i < 16; ++i) {
    const int level = levels_of(levels)[i], magnitude = level < 0 ? -level : level;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

// Bytes that a lane has: of d, for each record; of scales, for each 32 k (and of minima, where these are apart).
constexpr int d_size(StripForm form) {
  return form.scale == StripForm::kE4m3 ? 0 : form.scale == StripForm::kPower ? 1 : 2;
}
constexpr int scales_of_block(StripForm form) { return form.step == 32 || form.scale == StripForm::kOddPair ? 1 : 2; }
// From the scale of a block's first step to that of its second.
constexpr int second_scale(StripForm form) { return (scales_of_block(form) - 1) * kStripRows; }

// Byte offsets in a record, whose low begins at 0, and its size, a multiple of 64. Absent arrays have the offset
// of the next one.
struct StripRecord {
  int high, scales, minima, bytes;
};
constexpr StripRecord strip_record(StripForm form) {
  const bool scaled = form.scale != StripForm::kHalf && form.scale != StripForm::kPower;
  const bool minima = scaled && form.minima && form.scale != StripForm::kNibble && form.scale != StripForm::kDelta;
  const int numbers = form.record / 32 * scales_of_block(form) * kStripRows;
  StripRecord record{};
  record.high = form.record * kStripRows * form.low_bits / 8;
  record.scales = record.high + form.record * kStripRows * form.high_bits / 8;
  record.minima = record.scales + (scaled ? numbers : 0);
  record.bytes = record.minima + (minima ? numbers : 0);
  return record;
}

// Where a record's minima are: with the scales where one byte says both.
constexpr int minima_at(StripForm form) {
  const StripRecord record = strip_record(form);
  return form.scale == StripForm::kNibble || form.scale == StripForm::kDelta ? record.scales : record.minima;
}

// Of F8_E4M3_128.
inline constexpr int kF8Record = 128, kF8ScaleBytes = kStripRows * 4,
                     kF8RecordBytes = kF8ScaleBytes + kF8Record * kStripRows;

// What depends on the matrix.
struct StripLayout {
  TensorType type;
  int64_t cols;            // as the matrix has them, without padding
  size_t records, halves;  // bytes of a strip in each of the matrix's two areas, multiples of 64
  size_t d, d_min;         // byte offsets in its halves; of kDelta, the same

  size_t bytes() const { return records + halves; }
};

// `cols` must be positive and a multiple of the type's block (asserted).
StripLayout strip_layout(TensorType type, int64_t cols);

}  // namespace monolith
