#include "backend/cuda/quant/product.h"

#include <algorithm>

namespace monolith::cuda {
namespace {

void launch(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  switch (product.layout.shape) {
    case QuantShape::kS8: return quant_product_s8(runtime, product, kernel);
    case QuantShape::kS4: return quant_product_s4(runtime, product, kernel);
    case QuantShape::kLevels4: return quant_product_levels(runtime, product, kernel);
    case QuantShape::kU4: return quant_product_u4(runtime, product, kernel);
    case QuantShape::kU5: return quant_product_u5(runtime, product, kernel);
    case QuantShape::kS6: return quant_product_s6(runtime, product, kernel);
    case QuantShape::kU3: return quant_product_u3(runtime, product, kernel);
    case QuantShape::kLevels3:
    case QuantShape::kLevels4By16: return quant_product_expanded(runtime, product, kernel);
  }
}

}  // namespace

QuantKernel quant_kernel_for(int64_t rows, int n_columns, int multiprocessors) {
  if (n_columns <= tile_size(QuantKernel::kFew).columns) return QuantKernel::kFew;
  if (n_columns <= tile_size(QuantKernel::kSome).columns) return QuantKernel::kSome;
  // For intermediate sizes, kSome reads the inputs more often than kMany, but this costs less than idle
  // multiprocessors.
  const QuantTileSize size = tile_size(QuantKernel::kMany);
  const int64_t blocks = ((rows + size.rows - 1) / size.rows) * ((n_columns + size.columns - 1) / size.columns);
  return n_columns <= 4 * size.columns && 2 * blocks < multiprocessors ? QuantKernel::kSome : QuantKernel::kMany;
}

size_t stream_shared_bytes(const QuantLayout& layout, const StreamPlan& plan) {
  const int sums = plan.groups * 2 * plan.columns * kStreamSumBytes;
  const int rings = plan.groups * kSegments * plan.stages * stream_stage_bytes(layout);
  const int inputs = layout.n_chunks * 4 * stream_step_bytes(layout.shape, plan.columns);
  return static_cast<size_t>(kStreamBarrierBytes + sums + rings + inputs);
}

std::optional<StreamPlan> plan_stream(const QuantLayout& layout, int64_t rows, int n_columns,
                                      const DeviceProperties& device, bool any) {
  if (device.major != 9 || device.minor != 0) return {};
  int columns = 1;
  while (columns < n_columns && columns < 16) columns *= 2;
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  const bool little = tiles <= 2 * device.multiprocessors;
  if (!any && (n_columns > 16 || (n_columns > 4 && little && layout.n_chunks < 64))) return {};
  // More stages in flight are more useful than leaving shared memory for a block of the next kernel. On an H200, a step
  // of Llama 8B in Q4_K took 2.9 ms with this choice, and 3.9 ms with blocks of half the size.
  struct Size {
    int groups, stages;
  };
  // If the inputs of 16 columns do not fit, they are processed as two tiles of 8.
  for (; columns > 0; columns = columns == 16 ? 8 : 0)
    for (const auto [groups, stages] : {Size{2, 3}, Size{2, 2}, Size{1, 4}, Size{1, 3}, Size{1, 2}}) {
      const StreamPlan plan{columns, groups, stages};
      if (stream_shared_bytes(layout, plan) <= device.shared_bytes) return plan;
    }
  return {};
}

void quant_matmul(Runtime& runtime, const Int8Activations& scratch, std::span<const MatmulTarget> targets,
                  std::span<const QuantWeight> weights, const float* x, int n_rows, std::optional<QuantKernel> only,
                  const ColumnGroups* groups, bool converted) {
  if (targets.empty() || n_rows == 0) return;
  const int n_experts = groups ? groups->n_experts : 1;
  const int columns = groups ? static_cast<int>(columns_of_group(groups->n_pairs, n_experts)) : n_rows;
  QuantProduct product{};
  product.n_columns = n_rows;
  product.x = converted ? scratch.blocks()
                        : scratch.quantize(x, n_rows, weights[0].layout.cols, groups ? groups->source : nullptr);
  // One launch per weight type, with all targets of that type. The first target of a type starts the launch.
  for (size_t first = 0; first < targets.size(); ++first) {
    const TensorType type = weights[first].layout.type;
    const auto same = [&](const QuantWeight& weight) { return weight.layout.type == type; };
    if (std::any_of(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(first), same)) continue;
    int64_t rows = 0;
    for (const QuantWeight& weight : weights) rows += same(weight) ? weight.layout.rows : 0;
    QuantKernel kernel = only.value_or(quant_kernel_for(rows, columns, runtime.device().multiprocessors));
    const bool asked = only == QuantKernel::kStream;
    if (asked || (!only && !groups)) {
      const auto plan = plan_stream(weights[first].layout, rows, groups ? 8 : columns, runtime.device(), asked);
      kernel = plan ? QuantKernel::kStream : asked ? QuantKernel::kFew : kernel;
      if (plan) product.stream = *plan;
    }
    if (groups) {
      const int width = tile_size(kernel).columns;
      cut_tiles(runtime, *groups, width);
      product.tiles = groups->tiles;
      product.most_tiles = static_cast<int32_t>(most_tiles(groups->n_pairs, n_experts, width));
    }
    product.layout = weights[first].layout;
    product.n_targets = 0;
    int32_t blocks = 0;
    for (size_t i = first; i < targets.size(); ++i) {
      if (!same(weights[i])) continue;
      if (product.n_targets == kMaxTargets) {
        launch(runtime, product, kernel);
        product.n_targets = 0;
        blocks = 0;
      }
      const MatmulTarget& target = targets[i];
      product.targets[product.n_targets++] = {
          weights[i].data, target.out,       target.bias, target.out_stride, weights[i].layout.rows / n_experts,
          blocks,          target.add_to_out};
      const int64_t own_rows = weights[i].layout.rows / n_experts;
      blocks += static_cast<int32_t>((own_rows + tile_size(kernel).rows - 1) / tile_size(kernel).rows);
    }
    launch(runtime, product, kernel);
  }
}

}  // namespace monolith::cuda
