// Rows as a file has them to the order of fragments (dense.h). Each thread gathers the 16 bytes of one lane. Once per
// load, bound by the way to the device.
#include "backend/cuda/dense.h"
#include "backend/cuda/device/launch.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocksPerTile = 1024;

__global__ void __launch_bounds__(kThreads)
    pack_kernel(const uint16_t* rows, int64_t n_rows, int64_t cols, int64_t pieces, Words4* out) {
  start_after_inputs();
  const int64_t tile = blockIdx.x, first_row = tile * kDenseTileRows;
  for (int64_t piece = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x; piece < pieces;
       piece += static_cast<int64_t>(gridDim.y) * kThreads) {
    const int64_t step = piece / kWarp, lane = piece % kWarp;
    const auto pair = [&](int upper, int later) -> uint32_t {
      const int64_t row = first_row + lane / 4 + 8 * upper, k = 16 * step + 8 * later + 2 * (lane % 4);
      const auto value = [&](int64_t at) -> uint32_t {
        return row < n_rows && at < cols ? rows[row * cols + at] : uint32_t{0};
      };
      return value(k) | value(k + 1) << 16;
    };
    out[tile * pieces + piece] = {pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)};
  }
}

}  // namespace

void pack_dense(Runtime& runtime, const unsigned char* rows, int64_t n_rows, int64_t cols, unsigned char* packed) {
  const int64_t pieces = dense_blocks(cols) * (kDenseBlockK / 16) * kWarp;
  const int64_t blocks = (pieces + kThreads - 1) / kThreads;
  const dim3 grid{static_cast<unsigned>(dense_tiles(n_rows)),
                  static_cast<unsigned>(blocks < kMostBlocksPerTile ? blocks : kMostBlocksPerTile), 1};
  launch(runtime, pack_kernel, grid, kThreads, 0, reinterpret_cast<const uint16_t*>(rows), n_rows, cols, pieces,
         reinterpret_cast<Words4*>(packed));
}

}  // namespace monolith::cuda
