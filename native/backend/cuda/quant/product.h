// Products of quantized weights with 8-bit inputs: what kernels are told, and which one serves what. The arithmetic is
// quant/form.h's whichever it is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/quant/activations_int8.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/mixture/grouped.h"
#include "backend/cuda/quant/form.h"

namespace monolith::cuda {

inline constexpr int kMostTargets = 4;  // of one launch

struct QuantTarget {
  const unsigned char* data;
  float* out;
  const float* bias;  // or null
  int64_t out_stride, rows;
  int32_t first_block;  // of the launch's blocks of rows
  bool add_to_out;
};

// How kStream is launched (quant/stream-inl.h).
struct StreamPlan {
  int32_t columns;  // of a tile: 1, 2, 4, 8 or 16
  int32_t groups;   // of warps in a block, each with rows of its own
  int32_t stages;   // of each warp's ring
};
inline constexpr int kMostStreamGroups = 2, kMostStreamStages = 4;
inline constexpr int kStreamBarrierBytes =
    (kMostStreamGroups * 4 + kMostStreamGroups * kSegments * kMostStreamStages) * 8;
inline constexpr int kStreamSumBytes = kSegments * (kTileRows + 4) * 4;  // of a column, in one buffer

// A stage is two chunks, which numbers may share.
MONOLITH_HOST_DEVICE int stream_stage_bytes(const QuantLayout& layout) {
  return (2 * layout.code_bytes + 2 / layout.number_chunks * layout.number_bytes + 127) / 128 * 128;
}
// Of a step's inputs what so many columns need: codes, scales and sums, sums of halves.
constexpr int stream_step_bytes(QuantShape shape, int columns) {
  const bool halves = form_of(shape).minima && form_of(shape).step == 16;
  return 32 * columns + (columns + 1) / 2 * (halves ? 32 : 16);
}
size_t stream_shared_bytes(const QuantLayout& layout, const StreamPlan& plan);
// The plan for matrices of this layout and `rows` rows in all; none where kStream cannot, or where another kernel is
// faster. `any`: also there (tests, measurements).
std::optional<StreamPlan> plan_stream(const QuantLayout& layout, int64_t rows, int n_columns,
                                      const DeviceProperties& device, bool any = false);

// One launch: several matrices of one type and one number of columns with one input. Passed to kernels by value.
struct QuantProduct {
  QuantLayout layout;  // of all; its rows are none's
  QuantTarget targets[kMostTargets];
  int32_t n_targets;
  int32_t n_columns;  // rows of the input
  const Int8Block* x;
  // Of experts (grouped.h), whose matrices follow one another in each target; its rows are those of one. Null: none.
  const ColumnTile* tiles;
  int32_t most_tiles;
  StreamPlan stream;  // of kStream
  // Four times the same: see quant/tiles-inl.h.
  uint32_t magic[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
  uint32_t biased[4] = {kBiasedBits, kBiasedBits, kBiasedBits, kBiasedBits};
};

// kFew, kSome: a block of 8 warps, each with a segment of K, for 16 rows and 8 columns, or 32: weights at the
// memory's speed. kMany: 128 rows and 64 columns, each warp 32 rows and all of K, inputs through shared memory.
// kStream: on Hopper in place of kFew and kSome, blocks that stay and rings of weights (plan_stream()).
enum class QuantKernel : uint8_t { kFew, kSome, kMany, kStream };
struct QuantTileSize {
  int rows, columns;
};
constexpr QuantTileSize tile_size(QuantKernel kernel) {
  if (kernel == QuantKernel::kFew || kernel == QuantKernel::kStream) return {16, 8};
  return kernel == QuantKernel::kSome ? QuantTileSize{16, 32} : QuantTileSize{128, 64};
}
// Where plan_stream() has none: for `rows` of weights in the launch, on a device of so many multiprocessors; with experts
// the columns that one has.
QuantKernel quant_kernel_for(int64_t rows, int n_columns, int multiprocessors);

// Products of one input with several quantized matrices of `x_cols` columns: Backend::matmul. `weights[i]` is
// targets[i].weight's layout and data. `only`: that kernel, not the one for the size (tests, measurements).
// With `groups`, columns are slots of experts: x is read through groups->source, matrices hold groups->n_experts ones
// of equal shape one below the other, outputs are [slot][rows of one expert], and slots not in use are not written.
// `converted`: what the scratch holds is x already.
struct QuantWeight {
  QuantLayout layout;
  const unsigned char* data;
};
void quant_matmul(Runtime& runtime, const Int8Activations& scratch, std::span<const MatmulTarget> targets,
                  std::span<const QuantWeight> weights, const float* x, int n_rows,
                  std::optional<QuantKernel> only = std::nullopt, const ColumnGroups* groups = nullptr,
                  bool converted = false);

// Of product_*.cu: each takes shapes of its own. `product` has its targets' first blocks set for `kernel`.
void quant_product_s8(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_s4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_levels(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_u4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_u5(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_s6(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_u3(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_lattices(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);

}  // namespace monolith::cuda
