#include "backend/cuda/heads/heads.h"

#include <algorithm>
#include <string>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/moe/grouped.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxColumns = 1 << 15;  // Maximum number of columns per pass, unless 8 tokens already need more.

// Returns the number of tokens per pass, a multiple of kSlotMultiple.
int rows_at_once(int max_rows, int n_heads) {
  const int64_t wanted = (int64_t{std::max(max_rows, 1)} + kSlotMultiple - 1) / kSlotMultiple * kSlotMultiple;
  const int64_t fits = kMaxColumns / n_heads / kSlotMultiple * kSlotMultiple;
  return static_cast<int>(std::clamp<int64_t>(fits, kSlotMultiple, wanted));
}

constexpr size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Parts {
  size_t inputs, outputs, first_slot, count, tiles, all;
  Parts(int at_once, const HeadProductShape& shape) {
    const auto heads = static_cast<size_t>(shape.n_heads), columns = heads * static_cast<size_t>(at_once);
    inputs = 0;
    outputs = aligned(columns * static_cast<size_t>(shape.cols) * sizeof(float));
    first_slot = outputs + aligned(columns * static_cast<size_t>(shape.rows) * sizeof(float));
    count = first_slot + aligned(heads * sizeof(int32_t));
    tiles = count + aligned(heads * sizeof(int32_t));
    const int64_t most = most_tiles(static_cast<int64_t>(columns), shape.n_heads, kSlotMultiple);
    all = tiles + aligned(static_cast<size_t>(most) * sizeof(ColumnTile));
  }
};

struct Strides {
  int64_t row, head;
};

// Copies the inputs, with one block per token and head. The blocks of the first token also write the positions of their
// head's columns.
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const float* x, Strides from, int64_t cols, int at_once, float* inputs, int n_rows,
                  int32_t* first_slot, int32_t* count, ColumnTile* tiles, int width, int most) {
  start_after_inputs();
  const int64_t row = blockIdx.x, head = blockIdx.y;
  const float* const own = x + row * from.row + head * from.head;
  float* const to = inputs + (head * at_once + row) * cols;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) to[i] = own[i];
  if (row > 0) return;
  const int32_t first = static_cast<int32_t>(head) * at_once, each = (n_rows + width - 1) / width;
  for (int i = static_cast<int>(threadIdx.x); i < each; i += kThreads)
    tiles[head * each + i] = {first + i * width, n_rows - i * width < width ? n_rows - i * width : width,
                              static_cast<int32_t>(head)};
  if (threadIdx.x == 0) {
    first_slot[head] = first;
    count[head] = n_rows;
  }
  if (head + 1 < gridDim.y) return;
  for (int i = static_cast<int>(gridDim.y) * each + static_cast<int>(threadIdx.x); i < most; i += kThreads)
    tiles[i] = {0, 0, 0};
}

__global__ void __launch_bounds__(kThreads)
    scatter_kernel(const float* outputs, int64_t all_rows, int at_once, int64_t rows, float* out, Strides to) {
  start_after_inputs();
  const int64_t row = blockIdx.x, head = blockIdx.y;
  const float* const own = outputs + (head * at_once + row) * all_rows;
  float* const result = out + row * to.row + head * to.head;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) result[i] = own[i];
}

}  // namespace

int64_t CudaHeads::most_columns(int max_rows, const HeadProductShape& shape) {
  return shape.n_heads == 0 ? 0 : int64_t{shape.n_heads} * rows_at_once(max_rows, shape.n_heads);
}

size_t CudaHeads::bytes_for(int max_rows, const HeadProductShape& shape) {
  return shape.n_heads == 0 ? 0 : Parts(rows_at_once(max_rows, shape.n_heads), shape).all;
}

Status CudaHeads::reserve(int max_rows, const HeadProductShape& shape) {
  if (shape.n_heads == 0) return {};
  constexpr int64_t kMaxHeads = 1 << 14, kMaxValues = 1 << 16;
  const auto in_range = [](int64_t value, int64_t high) { return value >= 1 && value <= high; };
  if (!in_range(shape.n_heads, kMaxHeads) || !in_range(shape.rows, kMaxValues) || !in_range(shape.cols, kMaxValues))
    return Error{ErrorCode::kInvalidArgument, "batched matmul shape is out of range: " + std::to_string(shape.n_heads) +
                                                  " heads, " + std::to_string(shape.rows) + " by " +
                                                  std::to_string(shape.cols)};
  const HeadProductShape most{std::max(shape.n_heads, shape_.n_heads), std::max(shape.rows, shape_.rows),
                              std::max(shape.cols, shape_.cols)};
  const int at_once = std::max(rows_at_once(max_rows, most.n_heads), at_once_);
  runtime_.free(memory_);
  memory_ = nullptr;
  shape_ = {};
  auto memory = runtime_.allocate(Parts(at_once, most).all);
  if (!memory) return memory.error();
  memory_ = static_cast<unsigned char*>(*memory);
  shape_ = most;
  at_once_ = at_once;
  return {};
}

void CudaHeads::run(const MatmulContext& context, const BatchedMatmul& products, int n_rows) {
  const Matrix& weight = *products.weight;
  const Parts parts(at_once_, shape_);
  auto* const inputs = reinterpret_cast<float*>(memory_ + parts.inputs);
  auto* const outputs = reinterpret_cast<float*>(memory_ + parts.outputs);
  const int64_t all_rows = weight.rows / products.n_heads;
  for (int first = 0; first < n_rows; first += at_once_) {
    const int n = std::min(at_once_, n_rows - first);
    const int padded = (n + kSlotMultiple - 1) / kSlotMultiple * kSlotMultiple, n_pairs = n * products.n_heads;
    const MatmulTarget target{&weight, outputs, all_rows};
    const int width = grouped_tile_columns(runtime_, context, {&target, 1}, n_pairs, products.n_heads);
    const ColumnGroups groups{.source = nullptr,
                              .first_slot = reinterpret_cast<int32_t*>(memory_ + parts.first_slot),
                              .count = reinterpret_cast<int32_t*>(memory_ + parts.count),
                              .tiles = reinterpret_cast<ColumnTile*>(memory_ + parts.tiles),
                              .n_slots = padded * products.n_heads,
                              .n_pairs = n_pairs,
                              .n_experts = products.n_heads,
                              .tile_columns = width};
    const dim3 grid{static_cast<unsigned>(n), static_cast<unsigned>(products.n_heads), 1};
    launch(runtime_, gather_kernel, grid, kThreads, 0, products.x + first * products.x_stride,
           Strides{products.x_stride, products.x_head_stride}, weight.cols, padded, inputs, n,
           reinterpret_cast<int32_t*>(memory_ + parts.first_slot), reinterpret_cast<int32_t*>(memory_ + parts.count),
           groups.tiles, width, static_cast<int>(most_tiles(n_pairs, products.n_heads, width)));
    matmul_grouped(runtime_, context, {&target, 1}, inputs, groups);
    launch(runtime_, scatter_kernel, grid, kThreads, 0, outputs, all_rows, padded, products.rows,
           products.out + first * products.out_stride, Strides{products.out_stride, products.out_head_stride});
  }
}

}  // namespace monolith::cuda
