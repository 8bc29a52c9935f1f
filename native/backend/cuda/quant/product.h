// Products of quantized weights with 8-bit activations: kernel arguments and kernel selection. All kernels use the
// arithmetic of quant/form.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/quant/activations_int8.h"
#include "backend/cuda/device/runtime.h"
#include "backend/cuda/moe/grouped.h"
#include "backend/cuda/quant/form.h"

namespace monolith::cuda {

inline constexpr int kMaxTargets = 4;  // Maximum number of matrices per launch.

struct QuantTarget {
  const unsigned char* data;
  float* out;
  const float* bias;  // Optional, may be null.
  int64_t out_stride, rows;
  int32_t first_block;  // Index of the target's first block among the launch's row blocks.
  bool add_to_out;
};

// Launch parameters of kStream (quant/stream-inl.h).
struct StreamPlan {
  int32_t columns;  // Columns per tile: 1, 2, 4, 8 or 16.
  int32_t groups;   // Groups of warps per block, each with its own rows.
  int32_t stages;   // Stages in each warp's ring.
};
inline constexpr int kMaxStreamGroups = 2, kMaxStreamStages = 4;
inline constexpr int kStreamBarrierBytes = (kMaxStreamGroups * 4 + kMaxStreamGroups * kSegments * kMaxStreamStages) * 8;
inline constexpr int kStreamSumBytes = kSegments * (kTileRows + 4) * 4;  // Per column and buffer.

// Returns the size of a stage, which holds two chunks, since two chunks may share block scales.
MONOLITH_HOST_DEVICE int stream_stage_bytes(const QuantLayout& layout) {
  return (2 * layout.code_bytes + 2 / layout.number_chunks * layout.number_bytes + 127) / 128 * 128;
}
// Returns the size in bytes of one step of the inputs for `columns` columns: codes, scales, sums and, if needed, the
// sums of each half.
constexpr int stream_step_bytes(QuantShape shape, int columns) {
  const bool halves = form_of(shape).minima && form_of(shape).step == 16;
  return 32 * columns + (columns + 1) / 2 * (halves ? 32 : 16);
}
size_t stream_shared_bytes(const QuantLayout& layout, const StreamPlan& plan);
// Returns the kStream plan for matrices of this layout with `rows` rows in total. Returns nothing if kStream cannot be
// used or another kernel is faster. If `any` is set (for tests and measurements), speed is not considered.
std::optional<StreamPlan> plan_stream(const QuantLayout& layout, int64_t rows, int n_columns,
                                      const DeviceProperties& device, bool any = false);

// Arguments of one launch, which multiplies several matrices of the same type and number of columns with the same
// input. Passed to kernels by value.
struct QuantProduct {
  QuantLayout layout;  // Layout of all targets; its `rows` is unused.
  QuantTarget targets[kMaxTargets];
  int32_t n_targets;
  int32_t n_columns;  // Rows of the input.
  const Int8Block* x;
  // Column tiles of experts (grouped.h); null if there are no experts. The experts' matrices follow one another in each
  // target, and a target's `rows` is the number of rows of one expert.
  const ColumnTile* tiles;
  int32_t most_tiles;
  StreamPlan stream;  // For kStream only.
  // Four copies of the same value; quant/tiles-inl.h explains why.
  uint32_t magic[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
  uint32_t biased[4] = {kBiasedBits, kBiasedBits, kBiasedBits, kBiasedBits};
};

// kFew and kSome: a block of 8 warps computes 16 rows and 8 or 32 columns, with one segment of K per warp; their speed
// is limited by the memory bandwidth. kMany: a block computes 128 rows and 64 columns, each warp 32 rows and all of K,
// with inputs in shared memory. kStream: replaces kFew and kSome on Hopper, with persistent blocks and rings of weights
// (plan_stream()).
enum class QuantKernel : uint8_t { kFew, kSome, kMany, kStream };
struct QuantTileSize {
  int rows, columns;
};
constexpr QuantTileSize tile_size(QuantKernel kernel) {
  if (kernel == QuantKernel::kFew || kernel == QuantKernel::kStream) return {16, 8};
  return kernel == QuantKernel::kSome ? QuantTileSize{16, 32} : QuantTileSize{128, 64};
}
// Selects the kernel if plan_stream() returns nothing. `rows` is the number of weight rows in the launch, and
// `multiprocessors` the number of multiprocessors of the device. With experts, `n_columns` is the number of columns of
// one expert.
QuantKernel quant_kernel_for(int64_t rows, int n_columns, int multiprocessors);

// Multiplies one input with several quantized matrices of the same number of columns (Backend::matmul). weights[i] has
// the layout and data of targets[i].weight. `only` forces the use of a kernel, for tests and measurements. With
// `groups`, columns are expert slots, x is read through groups->source, matrices contain groups->n_experts matrices of
// equal shape one below the other, and outputs have shape [slot][rows of one expert]; slots not in use are not written.
// If `converted` is true, the scratch memory already contains the converted x.
struct QuantWeight {
  QuantLayout layout;
  const unsigned char* data;
};
void quant_matmul(Runtime& runtime, const Int8Activations& scratch, std::span<const MatmulTarget> targets,
                  std::span<const QuantWeight> weights, const float* x, int n_rows,
                  std::optional<QuantKernel> only = std::nullopt, const ColumnGroups* groups = nullptr,
                  bool converted = false);

// Defined in product_*.cu, each for its own code kinds. QuantTarget::first_block must be set, for kernel `kernel`, in
// all targets of `product`.
void quant_product_s8(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_s4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_levels(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_u4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_u5(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_s6(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_u3(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);
void quant_product_expanded(Runtime& runtime, const QuantProduct& product, QuantKernel kernel);

}  // namespace monolith::cuda
