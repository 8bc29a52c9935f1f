// Quantized weights in device memory: the packed layout, and the arithmetic of every product with them. Read this file
// before any kernel of this folder. It contains constants and pure functions, usable from any thread, on host and
// device.
//
// LAYOUT. A tile is 16 rows (outputs). A chunk is 128 columns (k) of a tile: four steps of 32 columns, each of which is
// one A fragment of the tensor cores' m16n8k32 (tensor.h). The codes of a tile's chunks are followed by the tile's
// block scales (scales and minima), so a kernel reads two sequential streams. Rows and columns beyond the matrix are
// zeros.
//
// Codes. Codes whose width is not a power of two are split into low and high bits. For each chunk, lane l has low_bits
// / 2 groups of 16 bytes [group][lane][4 words], followed by 16 bytes (8 for one high bit) of high bits [lane]. With g
// = l / 4 and t = l % 4, byte i of word m of a fragment is row g + 8 (m % 2), k = 16 (m / 2) + 4 t + i of the step. For
// step j:
//   8 bits  group j, word m
//   4 bits  group j / 2, word 2 (j % 2) + m / 2, from bit 8 i + 4 (m % 2), or 16 (m % 2) + 4 i for codebook indices
//   2 bits  word j, from bit 8 i + 2 m
//   1 bit   word j / 2, bit 8 i + 4 (j % 2) + m
// Signed codes are two's complement. Kernels move them to the top bits of their byte, so they compute with 2^shift
// times the code and with 2^-shift times the scale. In the same way, the codebook values of IQ1, IQ2, IQ3 and NVFP4 are
// stored multiplied by eight. The codes of i-quants and ternary types come from quant/expand.h; all other codes are
// taken from the file unchanged.
//
// Block scales. Each row group g stores the two rows g and g + 8 together, so that a lane loads both at once:
//   kHalf      chunk: [g][row][4 steps] binary16 d                                             Q8_0 Q4_0 Q5_0 IQ4_NL
//   kHalfMin   chunk: the same, followed by m in the same layout                               Q4_1 Q5_1
//   kPower     chunk: [g][row][4 steps] byte e, for 2^(e - 128)                                MXFP4
//   kSix       256 k: [g][row] the first 16 bytes of the file's block: d, d_min, 12 bytes      Q4_K Q5_K
//   kSigned32  256 k: [chunk][g][row][4 steps] int8 + 128, then [g][row] binary16 d            IQ4_XS
//   kSigned16  256 k: [chunk][g][row][8 half steps] int8 + 128, then [g][row] binary16 d       Q6_K Q3_K IQ1 IQ2 IQ3
//   kNibbles   256 k: [chunk][g][row][8 half steps] byte, then [g][row] binary16 d, d_min      Q2_K TQ1_0 TQ2_0
//   kScale16   chunk: [g][row][8 half steps] nvfp4_scale_bits()                                NVFP4
//
// The i-quants, ternary types and NVFP4 thus take, in bits per value: IQ1 and IQ2 3.56, IQ3 4.56, TQ 2.63, NVFP4 4.5.
//
// ARITHMETIC. Activations are 8-bit integers a with one scale per 32 values (activations_int8.h); q is the number that
// a code represents. Sums of q * a are exact. Each output is computed in this order:
//   for each step (32 values of k, or 16) in order:
//     acc = fma(float(sum q * a) * step, a_scale, acc)
//     acc = fma(floor, -(a_scale * sum a), acc)              for types with minima
//   The shape of the matrix determines how K is divided into kSegments segments of whole chunks; each has its own acc,
//   starting at 0, and the segments are added in order
//   out = that sum (+ bias), plus the old out if the target requests it
// Here step = d * scale (exact), and floor = d_min * minimum (exact). The codes of Q5_0 and Q3_K are summed unsigned,
// with floors of 16 * step and 4 * step. The bits of an output therefore do not depend on the kernel that computes it.
//
// float(sum) * step takes a single instruction. Sums start from the bits of kMagic, which makes them floats with the
// value kMagic + sum. fma(kMagic + sum, step, -kMagic * step) then rounds once, as the product would, because kMagic *
// step is exact. This holds for steps up to 2^103; larger steps, which occur only in MXFP4, produce NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/language.h"
#include "formats/gguf/tensor_type.h"

namespace monolith::cuda {

inline constexpr int kTileRows = 16, kChunk = 128, kSegments = 8;
inline constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: integers below 2^22 are added in its low mantissa bits.
inline constexpr uint32_t kMagicBits = 0x4b400000;
inline constexpr uint32_t kBiasedBits = 0x4b000000;  // The bits of 2^23: a byte forms its lowest bits.

// The kernel variants: the kind of codes, and how their sums are converted to floats.
enum class QuantShape : uint8_t {
  kS8,           // Q8_0
  kS4,           // Q4_0
  kLevels4,      // IQ4_NL MXFP4 IQ4_XS
  kU4,           // Q4_1 Q4_K
  kU5,           // Q5_0 Q5_1 Q5_K
  kS6,           // Q6_K
  kU3,           // Q3_K; also Q2_K, TQ1_0 and TQ2_0, which have no high bit.
  kLevels3,      // IQ1 IQ2
  kLevels4By16,  // IQ3 NVFP4
};
struct QuantForm {
  int low_bits, high_bits;
  int shift;  // Kernels compute with codes multiplied by 2^shift.
  int step;   // Number of values of k that share a block scale: 32 or 16.
  bool minima;
};
constexpr QuantForm form_of(QuantShape shape) {
  switch (shape) {
    case QuantShape::kS8: return {8, 0, 0, 32, false};
    case QuantShape::kS4: return {4, 0, 4, 32, false};
    case QuantShape::kLevels4: return {4, 0, 0, 32, false};
    case QuantShape::kU4: return {4, 0, 0, 32, true};
    case QuantShape::kU5: return {4, 1, 0, 32, true};
    case QuantShape::kS6: return {4, 2, 2, 16, false};
    case QuantShape::kU3: return {2, 1, 0, 16, true};
    case QuantShape::kLevels3: return {2, 1, 3, 16, false};
    case QuantShape::kLevels4By16: return {4, 0, 3, 16, false};
  }
  return {};
}

// Returns whether codes are indices into a codebook. 4-bit indices have a different bit order.
constexpr bool has_levels(QuantShape shape) {
  return shape == QuantShape::kLevels4 || shape == QuantShape::kLevels3 || shape == QuantShape::kLevels4By16;
}

enum class Numbers : uint8_t { kHalf, kHalfMin, kPower, kSix, kSigned32, kSigned16, kNibbles, kScale16 };

// Layout parameters that depend on the type and size of a matrix. Small enough to be passed to kernels by value.
struct QuantLayout {
  TensorType type;
  QuantShape shape;
  Numbers numbers;
  int32_t high_bits;  // High bits of the type; 0 for Q2_K and TQ.
  int32_t n_chunks;
  int32_t code_bytes;     // Code bytes per chunk.
  int32_t number_chunks;  // Number of chunks that share one group of block scales: 1 or 2.
  int32_t number_bytes;   // Bytes per group of block scales.
  int64_t rows, cols;
  int64_t tile_bytes;
  Words4 levels;  // Codebook of sixteen bytes; zeros for codes that represent themselves.

  MONOLITH_HOST_DEVICE int64_t n_tiles() const { return (rows + kTileRows - 1) / kTileRows; }
  // Offset of the block scales within a tile.
  MONOLITH_HOST_DEVICE int64_t numbers_at() const { return int64_t{n_chunks} * code_bytes; }
};

// Returns whether `type` is one of the types listed above. These are all types in GGUF files except the floating-point
// types.
bool is_quantized(TensorType type);
// `type` must be quantized and `cols` a multiple of its block size.
QuantLayout quant_layout(TensorType type, int64_t rows, int64_t cols);
inline size_t quant_bytes(const QuantLayout& layout) {
  return static_cast<size_t>(layout.n_tiles()) * static_cast<size_t>(layout.tile_bytes);
}

// Returns the first chunk of a segment.
MONOLITH_HOST_DEVICE int segment_begin(int n_chunks, int segment) {
  return static_cast<int>(int64_t{n_chunks} * segment / kSegments);
}

}  // namespace monolith::cuda
