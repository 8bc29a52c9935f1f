// Packs rows from a file into fragment order (dense.h), or into FP8. Each thread gathers the 16 bytes of one lane.
// Packing runs once per load and is limited by the transfer to the device.
#include "backend/cuda/dense/dense.h"
#include "backend/cuda/dense/fp8.h"
#include "backend/cuda/device/launch.h"
#include "base/float8.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int64_t kMaxBlocksPerTile = 1024;

// Returns a grid with `threads` threads per tile.
dim3 grid_for(int64_t tiles, int64_t threads) {
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  const int64_t of_tile = blocks < kMaxBlocksPerTile ? blocks : kMaxBlocksPerTile;
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(of_tile), 1};
}

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

// --- FP8 -------------------------------------------------------------------------------------------------------

// Returns element `at` of an array of floats of the given type.
MONOLITH_DEVICE float number_at(const unsigned char* numbers, TensorType type, int64_t at) {
  if (type == TensorType::kF32) return reinterpret_cast<const float*>(numbers)[at];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(numbers)[at];
  return type == TensorType::kBF16 ? bfloat16_to_float(bits) : half_to_float(bits);
}

// Computes the scale of each row with one block per row. If a value of the row is not finite, writes 1 plus the row's
// index to `refused`.
__global__ void __launch_bounds__(kThreads) scale_kernel(const unsigned char* rows, TensorType type, int64_t cols,
                                                         int64_t first_row, float* scales, uint32_t* refused) {
  start_after_inputs();
  auto& of_warp = shared_memory<uint32_t[kWarps]>();
  const int64_t row = blockIdx.x;
  uint32_t most = 0;  // The bits of magnitudes compare in numeric order, with NaN last.
  for (int64_t k = threadIdx.x; k < cols; k += kThreads) {
    const uint32_t bits = as_bits(number_at(rows, type, row * cols + k)) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, most, distance);
    most = other > most ? other : most;
  }
  if (lane_id() == 0) of_warp[warp_id()] = most;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 0; i < kWarps; ++i) most = of_warp[i] > most ? of_warp[i] : most;
  scales[row] = fp8_scale(as_float(most)) * kFp8Raise;
  if (most >= 0x7f800000u) atomicMax(refused, static_cast<uint32_t>(first_row + row + 1));
}

// Packs two steps of 16 values of k of one lane at a time (fp8_bits()).
__global__ void __launch_bounds__(kThreads)
    pack_fp8_kernel(const unsigned char* rows, TensorType type, int64_t n_rows, int64_t cols, int64_t pieces,
                    const float* scales, Words4* out) {
  start_after_inputs();
  const int64_t tile = blockIdx.x, first_row = tile * kDenseTileRows;
  for (int64_t piece = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x; piece < pieces;
       piece += static_cast<int64_t>(gridDim.y) * kThreads) {
    const int64_t lane = piece % kWarp;
    const auto word = [&](int number) {
      uint32_t bits = 0;
      for (int upper = 0; upper < 2; ++upper)
        for (int i = 0; i < 2; ++i) {
          const int64_t row = first_row + lane / 4 + 8 * upper;
          const int64_t k = 32 * (piece / kWarp) + 8 * number + 2 * (lane % 4) + i;
          if (row >= n_rows || k >= cols) continue;
          const float value = number_at(rows, type, row * cols + k) / (scales[row] / kFp8Raise);
          bits |= fp8_bits(float_to_e4m3(value), upper) << (16 * i);
        }
      return bits;
    };
    out[tile * pieces + piece] = {word(0), word(1), word(2), word(3)};
  }
}

__global__ void __launch_bounds__(kThreads)
    embed_fp8_kernel(Fp8Matrix table, int64_t cols, const int32_t* tokens, float* out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, token = tokens[row], blocks = dense_blocks(cols);
  for (int64_t k = threadIdx.x; k < cols; k += kThreads) {
    const int64_t piece = (token / kDenseTileRows * blocks * 2 + k / 32) * kWarp + token % 8 * 4 + k % 8 / 2;
    const uint32_t word = reinterpret_cast<const uint32_t*>(table.codes)[piece * 4 + k % 32 / 8];
    const Words2 halves = fp8_halves(word);
    const uint32_t pair = token % kDenseTileRows < 8 ? halves.x : halves.y;
    out[row * cols + k] = half_to_float(static_cast<uint16_t>(pair >> (16 * (k % 2)))) * table.scales[token];
  }
}

}  // namespace

void pack_dense(Runtime& runtime, const unsigned char* rows, int64_t n_rows, int64_t cols, unsigned char* packed) {
  const int64_t pieces = dense_blocks(cols) * (kDenseBlockK / 16) * kWarp;
  launch(runtime, pack_kernel, grid_for(dense_tiles(n_rows), pieces), kThreads, 0,
         reinterpret_cast<const uint16_t*>(rows), n_rows, cols, pieces, reinterpret_cast<Words4*>(packed));
}

void pack_fp8(Runtime& runtime, const Fp8Matrix& matrix, TensorType type, const unsigned char* rows, int64_t first_row,
              int64_t n_rows, int64_t cols) {
  const int64_t pieces = dense_blocks(cols) * (kDenseBlockK / 32) * kWarp;
  float* const scales = matrix.scales + first_row;
  const dim3 each_row{static_cast<unsigned>(n_rows), 1, 1};
  launch(runtime, scale_kernel, each_row, kThreads, sizeof(uint32_t[kWarps]), rows, type, cols, first_row, scales,
         matrix.refused);
  launch(runtime, pack_fp8_kernel, grid_for(dense_tiles(n_rows), pieces), kThreads, 0, rows, type, n_rows, cols, pieces,
         scales, reinterpret_cast<Words4*>(matrix.codes) + first_row / kDenseTileRows * pieces);
}

void embed_fp8(Runtime& runtime, const Fp8Matrix& table, int64_t cols, const int32_t* tokens, int n_rows, float* out) {
  launch(runtime, embed_fp8_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kThreads, 0, table, cols, tokens, out);
}

}  // namespace monolith::cuda
