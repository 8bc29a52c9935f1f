// The table of matmul kernels for one instruction set. Kernels take raw pointers, access only their tile, and may run
// on any number of threads concurrently. This header is included in files that are compiled for different instruction
// sets. It must not contain inline functions that could be emitted out of line, because the linker might keep a copy
// that runs only on newer processors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/matmul/panels.h"

namespace monolith {

// How matmul packs its input (the activations), once per call for all targets. Rows are grouped into tiles of at most
// MatmulKernels::max_tile_rows. A tile is an array of 64-byte lines, [line][row], so a kernel reads one contiguous
// stream and finds row r's line at a constant offset of 64 r bytes. Which tile a row is in affects neither its lines
// nor its results.
enum class ActivationKind : uint8_t { kInt8, kF32, kBf16 };
inline constexpr int kActivationKinds = 3;
inline constexpr size_t kLineBytes = 64;

constexpr int64_t line_values(ActivationKind kind) { return kind == ActivationKind::kF32 ? 16 : 32; }
constexpr int64_t lines_per_row(ActivationKind kind, int64_t cols) {
  return (cols + line_values(kind) - 1) / line_values(kind);
}

// A 64-byte line of ActivationKind::kInt8: 32 values as a = round(x * (127 / amax)), ties to even, where amax = max
// |x|. Kernels use the sums of these values to correct for weights that are stored with an offset, and multiply the
// minima of the weights by -(scale * sum). If a block contains NaN or infinity, all a are 0 and the scale is NaN. If
// amax is below the minimum (kSmallestAmaxBits), all a and the scale are 0.
struct alignas(kLineBytes) ActivationBlock {
  int8_t a[32];
  float scale;  // amax / 127.
  int32_t minus_128_sum;
  int32_t minus_8_sum;
  int32_t minus_32_sum[2];         // -32 times the sums of the first and the last 16 values.
  float minus_scaled_sum;          // -(scale * float(sum)).
  float minus_scaled_half_sum[2];  // -(scale * float(sum)) of the first and the last 16 values.
};
static_assert(sizeof(ActivationBlock) == kLineBytes);

// Bit pattern of 2^-100. This bound keeps 127 / amax, and products of the scale and weights, in the range of normal
// numbers.
inline constexpr uint32_t kSmallestAmaxBits = 27u << 23;
inline constexpr uint32_t kInfinityBits = 0x7f800000u;

// One kernel call: a panel of weights (two adjacent panels for a pair kernel) times a tile of rows. Writes out[r *
// out_stride + lane] for r < n_rows and lane < lanes.
struct PanelTile {
  const std::byte* panel;
  const std::byte* block_scales;
  const PanelLayout* layout;
  const std::byte* lines;  // The packed tile of activations.
  int n_rows;              // 1 to max_tile_rows, or to max_pair_rows for a pair kernel.
  int lanes;               // 1 to 16, or 17 to 32 for a pair kernel.
  float* out;
  int64_t out_stride;
  const float* bias;  // Bias for lane 0 and the lanes after it, or null.
  bool add_to_out;
  // Pair kernels only: the weights of a later call. For every 32 columns, the kernel prefetches ahead_lines cache lines
  // of these weights.
  const std::byte* ahead = nullptr;
  int ahead_lines = 0;
};
using PanelKernel = void (*)(const PanelTile& tile);

// Prefetch distances for weights, in bytes. `far`: into the L2 cache; 0 = off. `near`: into the L1 cache. If `near` is
// 0, only every fourth line is prefetched into L2, and the hardware prefetcher loads the remaining lines.
struct StreamDistances {
  int64_t far, near;
};
// Prefetch distances for this processor: for quantized weights in general, and for types whose kernels guide the
// hardware prefetcher with their loads alone (led_by_loads() in quants_avx512-inl.h).
extern const StreamDistances kStreamDistances, kStreamLed;

// Packs one row of `cols` floats and stores line i at out + i * line_stride. The rest of the last line is zero. For
// kInt8, `cols` must be a multiple of 32.
using PackRow = void (*)(const float* x, int64_t cols, std::byte* out, size_t line_stride);

// Number of entries in the tables below, which are indexed by panel_type_index().
inline constexpr int kPanelTypes = 27;
constexpr int panel_type_index(TensorType type) {
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
    case TensorType::kF8E4M3: break;  // Not supported by matmul.
  }
  return 0;
}

// The kind of activations that each weight type requires.
using ActivationKinds = std::array<ActivationKind, kPanelTypes>;
inline constexpr ActivationKinds kUsualActivations = [] {
  ActivationKinds kinds;
  kinds.fill(ActivationKind::kInt8);
  for (TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kF8Scaled})
    kinds[static_cast<size_t>(panel_type_index(type))] = ActivationKind::kF32;
  return kinds;
}();

struct TileKernels;                   // tiles.h
inline constexpr int kTileRows = 16;  // Rows of a tile register.

struct MatmulKernels {
  const char* name;              // As in cpu_isa_name().
  std::atomic<uint64_t>* calls;  // Number of matmuls computed with this table since process start.
  int max_tile_rows;
  PackRow pack[kActivationKinds];  // Indexed by ActivationKind.
  ActivationKinds activation;
  PanelKernel panel[kPanelTypes];
  int max_pair_rows = 0;                    // 0 if there are no pair kernels.
  PanelKernel pair[kPanelTypes] = {};       // Null for types without a pair kernel.
  const TileKernels* tiles = nullptr;       // Null without AMX.
  const TileKernels* fast_tiles = nullptr;  // Null except for Arithmetic::kFast.
  int min_fast_rows = 0;                    // Number of rows from which fast_tiles is faster than `tiles`.
};

// Kernels for each instruction set. They may run only on processors that support it.
extern const MatmulKernels kPlainMatmul;
#if defined(__x86_64__)
extern const MatmulKernels kAvx2Matmul;
extern const MatmulKernels kAvx512Matmul;
// Replacements for the entries of kAvx2Matmul::panel on processors with AVX-VNNI. An entry is null if there is no
// replacement, as for floating-point weights.
extern const PanelKernel kAvxVnniPanels[kPanelTypes];

// Replacements for the BF16 entries of kAvx512Matmul on processors with vdpbf16ps.
struct Bf16Kernels {
  PackRow pack;
  PanelKernel panel;
};
extern const Bf16Kernels kAvx512Bf16;
extern const TileKernels kAmxTiles, kAmxFastTiles;
#elif defined(__aarch64__)
extern const MatmulKernels kNeonMatmul;
extern const MatmulKernels kNeonI8mmMatmul;
#endif

}  // namespace monolith
