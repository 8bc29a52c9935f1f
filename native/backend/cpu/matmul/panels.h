// The layout of the weights, and the arithmetic of every matmul with them. Read this before any kernel.
//
// LAYOUT. A panel holds 16 consecutive rows (outputs) of a matrix. Lane l of every vector is row l of the panel, so
// each output stays in one lane from start to end. A group is 4 consecutive k (inputs) of all 16 rows: 64 bytes,
// [lane][4], if a value takes one byte. Lanes beyond the matrix's last row are zero.
//   F32    values [k][lane] float                                   k padded with zeros to 16
//   F16    values [k][lane] binary16                                k padded with zeros to 16
//   BF16   values [k/2][lane][2] bfloat16                           k padded with zeros to 32
//   F8_E4M3_128  for each 128 k: 256 times the scales [lane] float, then codes [k][lane]
//
// A panel of quantized weights is a sequence of records, plus its block scales. Each record covers 32 k, or 256 k if
// the blocks in the file have 256 values. The block scales are the arrays d and d_min of the whole panel, padded to 64
// bytes. A matrix stores the records of all its panels, followed by the block scales of all panels. A thread that
// processes panels in order therefore reads two ranges of memory without gaps. This matters because Zen 4's prefetcher
// stops at a gap: with block scales stored after each panel's records, a single stream reached 24 of 35 GB/s per core
// instead of 34. The arrays of a record are adjacent. PanelLayout holds all offsets.
//            in each record, k from its first                            block scales
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
//   TQ2_0    like TQ1_0
//   IQ1_S    low [k/16]               scale [k/32][lane] byte            d [k/256][lane] binary16
//   IQ1_M    low [k/16]  high [k/32]  scale [k/32][lane] byte            d [k/256][lane] binary16
//   IQ2_*    low [k/16]  high [k/32]  scale [k/32][lane] byte            d [k/256][lane] binary16
//   IQ3_*    low [k/8]                scale [k/32][lane] byte            d [k/256][lane] binary16
//
// Codebook types (i-quants) and TQ1_0 are expanded to one code per value (formats/gguf/expanded_types.h), because
// codebook lookups take longer than reading the additional bits from memory. Bits per value, in the file and in this
// layout:
//   IQ1_S 1.56 2.31   IQ2_XXS 2.06 3.31   IQ2_S   2.56 3.31   IQ3_S 3.44 4.31
//   IQ1_M 1.75 3.31   IQ2_XS  2.31 3.31   IQ3_XXS 3.06 4.31   TQ1_0 1.69 2.06
//
// low and high are vectors of bytes [lane][4]. The code for k, an unsigned number, is split into a field of 8, 4, 2 or
// 1 low bits and a field of 2 or 1 high bits. Each byte is filled, from its lowest bits up, with the fields of as many
// successive groups as fit. With 4-bit fields, byte i of lane l in vector v holds k = 8v + i (low nibble) and 8v + 4 +
// i (high nibble).
//
// MXFP4's d is the exponent e of a scale 2^(e - 128). The d_min of Q4_1 and Q5_1 is the file's minimum, negated, so
// that all minima are subtracted. Q2_K's scale byte holds the scale in its low nibble and the minimum in its high
// nibble. The scale bytes of codebook types are ExpandedBlock::numbers; those of NVFP4 come from nvfp4_scale_bits().
// panel_form() defines what the numbers mean for each type.
//
// ACTIVATIONS are packed for each call into 64-byte lines (kernels.h). For quantized weights, a line holds 32 signed
// bytes, their scale, and constants derived from their sum.
//
// ARITHMETIC. For each output (row, lane), all instruction sets compute exactly the following, regardless of other
// outputs. q is the integer that the code represents: code - offset, or a level from the type's table. Sums of q * a
// are exact in int32, fma rounds once, and every other operation rounds to float.
//   step  = d, or d * scale (exact), or that times a power of two: one for each 32 k; for Q2_K, Q3_K, Q6_K, NVFP4,
//           IQ1_M, IQ2_XS and IQ2_S, one for each 16
//   floor = d_min, or d_min * minimum (exact), likewise; for IQ1_S step / 8 or -step / 8
//   Each block of 32 k in order:
//     acc  = fma(float(sum q * a) * step, a_scale, acc)
//     acc  = fma(floor, -(a_scale * sum a), acc)                                    if there are minima
//   or, for types with a step for each half of 16:
//     acc  = fma(fma(float(sum_1 q * a), step_1, float(sum_0 q * a) * step_0), a_scale, acc)
//     acc  = fma(floor_0, -(a_scale * sum_0 a), acc), then the same with floor_1, sum_1 if there are minima
//   F8_E4M3_128: w = (code as binary16, which is 2^-8 times its value) * (256 * scale), rounded once; then as F32.
//   F32, F16, BF16: two partial sums, for even and odd k, each in order; then their sum:
//     acc[k % 2] = fma(w, a, acc[k % 2]);   acc = acc[0] + acc[1]
//   BF16 with vdpbf16ps: activations rounded to bfloat16, to nearest, ties to even; two partial sums,
//     for even and odd pairs of k, each in order; a pair is two products and sums as that instruction rounds them.
//   out = acc (* factor of the row) (+ bias), then + old out if requested.
//
// So quantized, F32 and F16 matmul produce the same bits on every instruction set. Only BF16 differs, on processors
// with vdpbf16ps. Arithmetic::kExact stores every type as F32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/gguf/expanded_types.h"
#include "formats/gguf/tensor_type.h"

namespace monolith {

inline constexpr int kPanelRows = 16;

// Describes the codes, scales and minima of a quantized type. Used in constant expressions to specialize the kernels.
struct PanelForm {
  int low_bits, high_bits;  // Bits per code; 0 for types that are not quantized.
  int offset;               // q = code - offset, unless there are levels.
  // If not kNone, q = levels_of()[code].
  enum Levels : uint8_t { kNone, kIq4, kMxfp4, kIq1m, kIq2, kIq3xxs, kIq3s } levels;
  int record;  // Number of k per record: the block size of the file's K-quants; 32 for most other types.
  int step;    // Number of k that share a step (and a floor): 32 or 16.
  enum Scale : uint8_t {
    kHalf,   // step = d.
    kPower,  // step = 2^(d - 128).
    kUnsigned,
    kSigned,  // step = d * scale.
    kNibble,  // step = d * (low nibble of the scale byte), floor = d_min * (its high nibble).
    // step = d * (low nibble of the scale byte). floor = step / 8 if the byte's highest bit is set, otherwise -step /
    // 8.
    kDelta,
    // step = d * (2 s + 1) * factor, where s is the low nibble of the scale byte for the first 16 k and the high nibble
    // for the last 16.
    kOddPair,
    kE4m3,  // step = nvfp4_step(scale).
  } scale;
  bool minima;
  float factor = 1;  // A power of two. Also applies to kUnsigned.
};
constexpr PanelForm panel_form(TensorType type) {
  using enum PanelForm::Scale;
  using enum PanelForm::Levels;
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
// Returns the table of 16 levels; null for kNone. PanelForm stores an enum rather than the address, because with UBSan,
// GCC does not accept an address in a constant expression.
constexpr const int8_t* levels_of(PanelForm::Levels levels) {
  switch (levels) {
    case PanelForm::kIq4: return kIq4Levels;
    case PanelForm::kMxfp4: return kMxfp4Levels;
    case PanelForm::kIq1m: return kIq1mLevels;
    case PanelForm::kIq2: return kIq2Levels;
    case PanelForm::kIq3xxs: return kIq3xxsLevels;
    case PanelForm::kIq3s: return kIq3sLevels;
    case PanelForm::kNone: break;
  }
  return nullptr;
}
// Returns the largest magnitude of the levels.
constexpr int largest_level(PanelForm::Levels levels) {
  int largest = 0;
  for (int i = 0; i < 16; ++i) {
    const int level = levels_of(levels)[i], magnitude = level < 0 ? -level : level;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

// d_size(): bytes of d per lane and record. scales_of_block(): bytes of scales per lane and 32 k; if minima are stored
// separately, they take the same number of bytes.
constexpr int d_size(PanelForm form) {
  return form.scale == PanelForm::kE4m3 ? 0 : form.scale == PanelForm::kPower ? 1 : 2;
}
constexpr int scales_of_block(PanelForm form) { return form.step == 32 || form.scale == PanelForm::kOddPair ? 1 : 2; }
// Distance in bytes from the scale of a block's first step to the scale of its second step.
constexpr int second_scale(PanelForm form) { return (scales_of_block(form) - 1) * kPanelRows; }

// Byte offsets of the arrays in a record, whose `low` array starts at offset 0, and the record's size in bytes, a
// multiple of 64. The offset of a missing array equals that of the next array.
struct PanelRecord {
  int high, scales, minima, bytes;
};
constexpr PanelRecord panel_record(PanelForm form) {
  const bool scaled = form.scale != PanelForm::kHalf && form.scale != PanelForm::kPower;
  const bool minima = scaled && form.minima && form.scale != PanelForm::kNibble && form.scale != PanelForm::kDelta;
  const int numbers = form.record / 32 * scales_of_block(form) * kPanelRows;
  PanelRecord record{};
  record.high = form.record * kPanelRows * form.low_bits / 8;
  record.scales = record.high + form.record * kPanelRows * form.high_bits / 8;
  record.minima = record.scales + (scaled ? numbers : 0);
  record.bytes = record.minima + (minima ? numbers : 0);
  return record;
}

// Returns the byte offset of the block minima in a record. If scale and minimum share a byte, this is the offset of the
// scales.
constexpr int minima_at(PanelForm form) {
  const PanelRecord record = panel_record(form);
  return form.scale == PanelForm::kNibble || form.scale == PanelForm::kDelta ? record.scales : record.minima;
}

// Record sizes of F8_E4M3_128.
inline constexpr int kF8Record = 128, kF8ScaleBytes = kPanelRows * 4,
                     kF8RecordBytes = kF8ScaleBytes + kF8Record * kPanelRows;

// The part of the layout that depends on the shape of the matrix, not only on its type.
struct PanelLayout {
  TensorType type;
  int64_t cols;                  // Columns of the matrix, without padding.
  size_t records, block_scales;  // Bytes per panel in the matrix's two areas, multiples of 64.
  size_t d, d_min;               // Byte offsets in the panel's block scales. Equal for kDelta.

  size_t bytes() const { return records + block_scales; }
};

// `cols` must be positive and a multiple of the type's block size (asserted).
PanelLayout panel_layout(TensorType type, int64_t cols);

}  // namespace monolith
