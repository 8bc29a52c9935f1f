// The table of matrix-product kernels of one instruction set. Kernels take raw pointers, touch nothing
// but their tile, and may run on any number of threads at once.
//
// This header is compiled into files with different instruction sets: keep it free of inline functions
// that could be emitted out of line, or the linker might keep the copy that only a new processor runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/activations.h"
#include "backend/cpu/strips.h"

namespace monolith {

// One strip times one tile of rows: out[r * out_stride + lane] for r < n_rows, lane < lanes.
struct StripTile {
  const std::byte* strip;
  const StripLayout* layout;
  const std::byte* lines;        // the packed tile
  int n_rows;                    // 1 .. max_tile_rows
  int lanes;                     // 1 .. 16
  float* out;
  int64_t out_stride;
  const float* bias;             // of lane 0, or null
  bool add_to_out;
};
using StripKernel = void (*)(const StripTile& tile);

// Packs one row of `cols` floats; its line i goes to out + i * line_stride. The rest of the last line is zero.
// kInt8 wants whole blocks of 32.
using PackRow = void (*)(const float* x, int64_t cols, std::byte* out, size_t line_stride);

// Order of StripKernel entries below.
inline constexpr int kStripTypes = 7;
constexpr int strip_type_index(TensorType type) {
  switch (type) {
    case TensorType::kF32: return 0;
    case TensorType::kF16: return 1;
    case TensorType::kBF16: return 2;
    case TensorType::kQ8_0: return 3;
    case TensorType::kQ4_0: return 4;
    case TensorType::kQ4_K: return 5;
    case TensorType::kQ6_K: return 6;
  }
  return 0;
}

struct MatmulKernels {
  const char* name;                            // as cpu_isa_name() has it
  std::atomic<uint64_t>* calls;                // products computed with this table since the process began
  int max_tile_rows;
  PackRow pack[kActivationKinds];              // by ActivationKind
  ActivationKind activation[kStripTypes];      // what the kernel of a type wants
  StripKernel strip[kStripTypes];
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
