// Quantized weights in device memory: the layout, and the arithmetic of every product on them. Read this before
// any kernel of this folder. Constants and pure functions; any thread, host and device.
//
// LAYOUT. A tile is 16 rows (outputs), a chunk 128 columns (k) of it: four steps of 32 k, each one fragment A of the
// tensor cores' m16n8k32 (tensor.h). A tile's chunks lie one after another, then its numbers (scales and minima), so
// that a kernel reads two streams front to back. Rows and columns past the matrix's are zeros.
//
// Codes. A code of more bits than a power of two is cut into low and high bits. Of a chunk, lane l has low_bits / 2
// pieces of 16 bytes [piece][lane][4 words], then 16 bytes (8 where it is one bit) of high bits [lane]. Word m of a
// fragment is row g + 8 (m % 2), k = 16 (m / 2) + 4 t + i of the step in its byte i (g = l / 4, t = l % 4). Of step j:
//   8 bits  piece j, word m
//   4 bits  piece j / 2, word 2 (j % 2) + m / 2, from bit 8 i + 4 (m % 2), or 16 (m % 2) + 4 i where they are levels
//   2 bits  word j, from bit 8 i + 2 m
//   1 bit   word j / 2, bit 8 i + 4 (j % 2) + m
// Codes of numbers around zero are two's complement; kernels move these to the top of their byte, so that they
// compute with 2^shift times the number, and with 2^-shift times the step. Levels of IQ1, IQ2, IQ3 and NVFP4 are eight
// times what they stand for, likewise. Lattice types' codes are those that quant/opened.h has; all others are the file's
// own.
//
// Numbers, for each g the two rows g and g + 8, so that a lane reads them at once:
//   kHalf      chunk: [g][row][4 steps] binary16 d                                             Q8_0 Q4_0 Q5_0 IQ4_NL
//   kHalfMin   chunk: the same, then as much with m                                            Q4_1 Q5_1
//   kPower     chunk: [g][row][4 steps] byte e, for 2^(e - 128)                                MXFP4
//   kSix       256 k: [g][row] the first 16 bytes of the file's block: d, d_min, 12 bytes      Q4_K Q5_K
//   kSigned32  256 k: [chunk][g][row][4 steps] int8 + 128, then [g][row] binary16 d            IQ4_XS
//   kSigned16  256 k: [chunk][g][row][8 half steps] int8 + 128, then [g][row] binary16 d       Q6_K Q3_K IQ1 IQ2 IQ3
//   kNibbles   256 k: [chunk][g][row][8 half steps] byte, then [g][row] binary16 d, d_min      Q2_K TQ1_0 TQ2_0
//   kScale16   chunk: [g][row][8 half steps] nvfp4_scale_bits()                                NVFP4
//
// So lattice types and NVFP4 take, in bits a value: IQ1, IQ2 3.56, IQ3 4.56, TQ 2.63, NVFP4 4.5.
//
// ARITHMETIC. Inputs are 8-bit numbers a with a scale for each 32 (activations_int8.h), q the number that a code
// stands for. Sums of q * a are exact. Of one output, in this order:
//   each step (of 32 k or of 16) in order:
//     acc = fma(float(sum q * a) * step, a_scale, acc)
//     acc = fma(floor, -(a_scale * sum a), acc)              where there are minima
//   K is cut into kSegments of whole chunks by the matrix's shape; each has an acc from 0, and they are added in order
//   out = that (+ bias), then old out + it if the target asks so
// step = d * scale (exact), floor = d_min * minimum (exact); the codes of Q5_0 and Q3_K are summed as they are, with
// floors 16 * step and 4 * step. So an output's bits do not depend on the kernel that computes it.
//
// float(sum) * step takes one instruction: sums start from kMagic's bits, which makes them floats of value
// kMagic + sum, and fma(that, step, -kMagic * step) rounds once what the product would, as kMagic * step is exact
// (steps up to 2^103: larger ones, of MXFP4, give NaN).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/language.h"
#include "formats/gguf/tensor_type.h"

namespace monolith::cuda {

inline constexpr int kTileRows = 16, kChunk = 128, kSegments = 8;
inline constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: integers below 2^22 around it are its last bits
inline constexpr uint32_t kMagicBits = 0x4b400000;
inline constexpr uint32_t kBiasedBits = 0x4b000000;  // of 2^23: a byte is its last bits

// What kernels are made for: the kind of codes, and how their sums become floats.
enum class QuantShape : uint8_t {
  kS8,           // Q8_0
  kS4,           // Q4_0
  kLevels4,      // IQ4_NL MXFP4 IQ4_XS
  kU4,           // Q4_1 Q4_K
  kU5,           // Q5_0 Q5_1 Q5_K
  kS6,           // Q6_K
  kU3,           // Q3_K; Q2_K TQ1_0 TQ2_0 without the high bit
  kLevels3,      // IQ1 IQ2
  kLevels4By16,  // IQ3 NVFP4
};
struct QuantForm {
  int low_bits, high_bits;
  int shift;  // codes are computed with at 2^shift times their value
  int step;   // k that share a step: 32 or 16
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

// Codes are numbers of levels; of 4 bits they lie in another order.
constexpr bool has_levels(QuantShape shape) {
  return shape == QuantShape::kLevels4 || shape == QuantShape::kLevels3 || shape == QuantShape::kLevels4By16;
}

enum class Numbers : uint8_t { kHalf, kHalfMin, kPower, kSix, kSigned32, kSigned16, kNibbles, kScale16 };

// What depends on type and size of a matrix. Small: passed to kernels.
struct QuantLayout {
  TensorType type;
  QuantShape shape;
  Numbers numbers;
  int32_t high_bits;  // of the type: 0 for Q2_K and TQ
  int32_t n_chunks;
  int32_t code_bytes;     // of a chunk
  int32_t number_chunks;  // that share one group of numbers: 1 or 2
  int32_t number_bytes;   // of a group
  int64_t rows, cols;
  int64_t tile_bytes;
  Words4 levels;  // sixteen bytes; zeros where codes stand for themselves

  MONOLITH_HOST_DEVICE int64_t n_tiles() const { return (rows + kTileRows - 1) / kTileRows; }
  MONOLITH_HOST_DEVICE int64_t numbers_at() const { return int64_t{n_chunks} * code_bytes; }  // in a tile
};

// One of the types above: all of a GGUF file that are not floats.
bool is_quantized(TensorType type);
// `type` quantized, `cols` a multiple of its block.
QuantLayout quant_layout(TensorType type, int64_t rows, int64_t cols);
inline size_t quant_bytes(const QuantLayout& layout) {
  return static_cast<size_t>(layout.n_tiles()) * static_cast<size_t>(layout.tile_bytes);
}

// First chunk of a segment.
MONOLITH_HOST_DEVICE int segment_begin(int n_chunks, int segment) {
  return static_cast<int>(int64_t{n_chunks} * segment / kSegments);
}

}  // namespace monolith::cuda
