// Float32 matmul. Each warp computes a few matrix rows for up to 8 columns, with lanes striding over k in groups of 4.
// Every output is summed in the same order, regardless of the number of columns: each lane's groups in ascending order,
// then the lanes in a tree.
#include "backend/cuda/device/launch.h"
#include "backend/cuda/matmul/matmul.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kMaxColumns = kF32TileColumns;
constexpr unsigned kMaxGridColumns = 65535;

struct Product {
  const float* weight;
  const float* x;
  const float* bias;  // Biases of all experts.
  float* out;
  int64_t rows, cols, out_stride;  // `rows` is per expert.
  const ColumnTile* tiles;         // Column tiles of experts; null if columns start at 0.
  int32_t n_tiles;
  const int32_t* source;  // The row of x that each expert slot reads; null means that slot i reads row i.
  int32_t n_columns;
  bool aligned;  // The rows of both operands are aligned to 16 bytes.
  bool add_to_out;
};

// Returns four values of k of a row, starting at `at`, with zeros beyond the row's end.
MONOLITH_DEVICE Floats4 piece_of(const float* row, int64_t at, const Product& p) {
  if (p.aligned && at + 4 <= p.cols) return *reinterpret_cast<const Floats4*>(row + at);
  const auto get = [&](int64_t i) { return i < p.cols ? row[i] : 0.0f; };
  return {get(at), get(at + 1), get(at + 2), get(at + 3)};
}

// Computes kRows matrix rows for kColumns columns, loading kAhead groups of 4 values of each row together.
template <int kRows, int kColumns, int kAhead>
__global__ void __launch_bounds__(kThreads) product_kernel(const __grid_constant__ Product p) {
  let_next_start();
  if (p.tiles) wait_for_inputs();  // The tile list, which selects a block's weights, is an input too.
  const int64_t first_row = (static_cast<int64_t>(blockIdx.x) * kWarps + warp_id()) * kRows;
  if (first_row >= p.rows) return wait_for_inputs();
  bool has_inputs = false;
  for (int tile = static_cast<int>(blockIdx.y); tile < p.n_tiles; tile += static_cast<int>(gridDim.y)) {
    const ColumnTile columns = p.tiles ? p.tiles[tile] : ColumnTile{tile * kColumns, p.n_columns - tile * kColumns, 0};
    if (columns.count == 0) break;  // Tiles in use come first.
    const float* rows[kRows];
    const float* inputs[kColumns];
    MONOLITH_UNROLL
    for (int r = 0; r < kRows; ++r)  // Rows beyond the last repeat the last row, and their results are discarded.
      rows[r] = p.weight + (columns.expert * p.rows + (first_row + r < p.rows ? first_row + r : p.rows - 1)) * p.cols;
    Floats4 w[kAhead][kRows];
    const auto load_weights = [&](int64_t at) {
      MONOLITH_UNROLL
      for (int ahead = 0; ahead < kAhead; ++ahead) MONOLITH_UNROLL
      for (int r = 0; r < kRows; ++r) w[ahead][r] = piece_of(rows[r], at + ahead * kWarp * 4, p);
    };
    int64_t at = lane_id() * 4;
    load_weights(at);
    if (!has_inputs) wait_for_inputs();
    has_inputs = true;
    MONOLITH_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const int64_t column = columns.first + (c < columns.count ? c : 0);
      inputs[c] = p.x + (p.source ? p.source[column] : column) * p.cols;
    }
    float sums[kRows][kColumns] = {};
    for (; at < p.cols; at += kWarp * 4 * kAhead, load_weights(at)) {
      MONOLITH_UNROLL
      for (int ahead = 0; ahead < kAhead; ++ahead) MONOLITH_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        if (c >= columns.count) break;
        const Floats4 x = piece_of(inputs[c], at + ahead * kWarp * 4, p);
        MONOLITH_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const Floats4& v = w[ahead][r];
          sums[r][c] = fmaf(v.w, x.w, fmaf(v.z, x.z, fmaf(v.y, x.y, fmaf(v.x, x.x, sums[r][c]))));
        }
      }
    }
    MONOLITH_UNROLL
    for (int r = 0; r < kRows; ++r) MONOLITH_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const int64_t row = first_row + r;
      if (row >= p.rows || c >= columns.count) continue;  // The condition is the same for the whole warp.
      float sum = warp_sum(sums[r][c]);
      if (lane_id() != 0) continue;
      float* const to = p.out + (columns.first + c) * p.out_stride + row;
      if (p.bias) sum += p.bias[columns.expert * p.rows + row];
      *to = p.add_to_out ? *to + sum : sum;
    }
  }
  wait_for_inputs();  // Warps without a tile must wait too.
}

template <int kRows, int kColumns, int kAhead>
void launch_product(Runtime& runtime, Product product, int64_t tiles) {
  constexpr int64_t kBlockRows = int64_t{kRows} * kWarps;
  product.n_tiles = static_cast<int32_t>(tiles);
  const dim3 grid{static_cast<unsigned>((product.rows + kBlockRows - 1) / kBlockRows),
                  tiles < kMaxGridColumns ? static_cast<unsigned>(tiles) : kMaxGridColumns, 1};
  launch(runtime, product_kernel<kRows, kColumns, kAhead>, grid, kThreads, 0, product);
}

__global__ void __launch_bounds__(kThreads)
    embed_kernel(const float* table, int64_t cols, const int32_t* tokens, float* out) {
  start_after_inputs();
  const int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) out[row * cols + i] = table[tokens[row] * cols + i];
}

}  // namespace

void matmul_f32(Runtime& runtime, const MatmulTarget& target, const float* x, int n_rows, const ColumnGroups* groups) {
  const auto& weight = static_cast<const CudaMatrix&>(*target.weight);
  Product product{.weight = static_cast<const float*>(weight.data()),
                  .x = x,
                  .bias = target.bias,
                  .out = target.out,
                  .rows = weight.rows / (groups ? groups->n_experts : 1),
                  .cols = weight.cols,
                  .out_stride = target.out_stride,
                  .tiles = nullptr,
                  .n_tiles = 0,
                  .source = nullptr,
                  .n_columns = n_rows,
                  .aligned = weight.cols % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0,
                  .add_to_out = target.add_to_out};
  if (groups) {
    product.tiles = groups->tiles;
    product.source = groups->source;
    cut_tiles(runtime, *groups, kMaxColumns);
    launch_product<4, kMaxColumns, 1>(runtime, product, most_tiles(groups->n_pairs, groups->n_experts, kMaxColumns));
  } else if (n_rows == 1) {
    launch_product<2, 1, 4>(runtime, product, 1);
  } else {
    launch_product<4, kMaxColumns, 1>(runtime, product, (n_rows + kMaxColumns - 1) / kMaxColumns);
  }
}

void embed_f32(Runtime& runtime, const CudaMatrix& table, const int32_t* tokens, int n_rows, float* out) {
  if (n_rows > 0)
    launch(runtime, embed_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kThreads, 0,
           static_cast<const float*>(table.data()), table.cols, tokens, out);
}

}  // namespace monolith::cuda
