// The table of matrix-product kernels of one instruction set. Kernels take raw pointers, touch nothing
// but their tile, and may run on any number of threads at once.
//
// This header is compiled into files with different instruction sets: keep it free of inline functions
// that could be emitted out of line, or the linker might keep the copy that only a new processor runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/matmul/activations.h"
#include "backend/cpu/matmul/strips.h"

namespace monolith {

// One strip, or two neighbours for a pair kernel, times one tile of rows: out[r * out_stride + lane] for
// r < n_rows, lane < lanes.
struct StripTile {
  const std::byte* strip;
  const std::byte* halves;
  const StripLayout* layout;
  const std::byte* lines;  // the packed tile
  int n_rows;              // 1 .. max_tile_rows, or max_pair_rows
  int lanes;               // 1 .. 16, or 17 .. 32
  float* out;
  int64_t out_stride;
  const float* bias;  // of lane 0, or null
  bool add_to_out;
  // Of a pair: weights that some later call will read. It asks for so many lines of them per 32 columns.
  const std::byte* ahead = nullptr;
  int ahead_lines = 0;
};
using StripKernel = void (*)(const StripTile& tile);

// How many bytes before their use weights are asked for: into the L2 cache (0: not), and into the L1 cache (0: not, and then
// only every fourth line into the L2 cache: the processor's own prefetcher does the rest).
struct StreamDistances {
  int64_t far, near;
};
// Of quantized weights on this processor, and of those whose loads lead its prefetcher.
extern const StreamDistances kStreamDistances, kStreamLed;

// Packs one row of `cols` floats; its line i goes to out + i * line_stride. The rest of the last line is zero.
// kInt8 wants whole blocks of 32.
using PackRow = void (*)(const float* x, int64_t cols, std::byte* out, size_t line_stride);

// Order of StripKernel entries below.
inline constexpr int kStripTypes = 27;
constexpr int strip_type_index(TensorType type) {
  switch (type) {
    case TensorType::kF32: return 0;
    case TensorType::kF16: return 1;
    case TensorType::kBF16: return 2;
    case TensorType::kQ8_0: return 3;
    case TensorType::kQ4_0: return 4;
    case TensorType::kQ4_1: return 5;
    case TensorType::kQ5_0: return 6;
    case TensorType::kQ5_1: return 7;
    case TensorType::kIQ4_NL: return 8;
    case TensorType::kMXFP4: return 9;
    case TensorType::kQ2_K: return 10;
    case TensorType::kQ3_K: return 11;
    case TensorType::kQ4_K: return 12;
    case TensorType::kQ5_K: return 13;
    case TensorType::kQ6_K: return 14;
    case TensorType::kIQ4_XS: return 15;
    case TensorType::kIQ1_S: return 16;
    case TensorType::kIQ1_M: return 17;
    case TensorType::kIQ2_XXS: return 18;
    case TensorType::kIQ2_XS: return 19;
    case TensorType::kIQ2_S: return 20;
    case TensorType::kIQ3_XXS: return 21;
    case TensorType::kIQ3_S: return 22;
    case TensorType::kTQ1_0: return 23;
    case TensorType::kTQ2_0: return 24;
    case TensorType::kNVFP4: return 25;
    case TensorType::kF8Scaled: return 26;
    case TensorType::kI32:
    case TensorType::kI64:
    case TensorType::kF8E4M3: break;  // not computed with here
  }
  return 0;
}

// What the kernel of a type wants.
using ActivationKinds = std::array<ActivationKind, kStripTypes>;
inline constexpr ActivationKinds kUsualActivations = [] {
  ActivationKinds kinds;
  kinds.fill(ActivationKind::kInt8);
  for (TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kF8Scaled})
    kinds[static_cast<size_t>(strip_type_index(type))] = ActivationKind::kF32;
  return kinds;
}();

struct MatmulKernels {
  const char* name;              // as cpu_isa_name() has it
  std::atomic<uint64_t>* calls;  // products computed with this table since the process began
  int max_tile_rows;
  PackRow pack[kActivationKinds];  // by ActivationKind
  ActivationKinds activation;
  StripKernel strip[kStripTypes];
  int max_pair_rows = 0;               // 0: there are no pair kernels
  StripKernel pair[kStripTypes] = {};  // null where a type has none
};

// The kernels of each instruction set, for the processor that has it.
extern const MatmulKernels kPlainMatmul;
#if defined(__x86_64__)
extern const MatmulKernels kAvx2Matmul;
extern const MatmulKernels kAvx512Matmul;

// What replaces the entries for BF16 weights in kAvx512Matmul where vdpbf16ps exists.
struct Bf16Kernels {
  PackRow pack;
  StripKernel strip;
};
extern const Bf16Kernels kAvx512Bf16;
#elif defined(__aarch64__)
extern const MatmulKernels kNeonMatmul;
extern const MatmulKernels kNeonI8mmMatmul;
#endif

}  // namespace monolith
