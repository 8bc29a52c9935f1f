#include "backend/cuda/activations_int8.h"

#include "backend/cuda/device/launch.h"
#include "backend/cuda/device/tensor_int8.h"
#include "backend/cuda/quant_form.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kValues = 4;                            // of a thread: a warp has a chunk
constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr uint32_t kSmallestAmaxBits = 27u << 23;     // 2^-100

int64_t blocks_of(int64_t cols) { return (cols + kChunk - 1) / kChunk * (kChunk / 32); }

__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const float* x, const int32_t* source, int64_t cols, int64_t n_blocks, Int8Block* out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, from = source ? source[row] : row;
  if (from < 0) return;
  const int64_t k = (int64_t{blockIdx.y} * kThreads + static_cast<int>(threadIdx.x)) * kValues;
  if (k - lane_id() * kValues >= n_blocks * 32) return;   // a whole warp
  Floats4 values{0, 0, 0, 0};
  if (k < cols) values = *reinterpret_cast<const Floats4*>(x + from * cols + k);
  const float each[4] = {values.x, values.y, values.z, values.w};
  uint32_t largest = 0;   // as integers, magnitudes order like the floats, NaN above infinity
  MONOLITH_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint32_t magnitude = as_bits(each[i]) & 0x7fffffffu;
    largest = largest > magnitude ? largest : magnitude;
  }
  MONOLITH_UNROLL
  for (int distance = 1; distance < 8; distance *= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, largest, distance);
    largest = largest > other ? largest : other;
  }
  float scale = 0;
  uint32_t codes = 0;
  if (largest >= kInfinityBits) {
    scale = as_float(0x7fc00000u);
  } else if (largest >= kSmallestAmaxBits) {
    const float amax = as_float(largest), inverse = 127.0f / amax;
    scale = amax / 127.0f;
    MONOLITH_UNROLL
    for (int i = 0; i < 4; ++i) codes |= (as_bits(each[i] * inverse + kMagic) & 0xffu) << (8 * i);
  }
  int half_sum = dot4(codes, 0x01010101u, 0);
  half_sum += __shfl_xor_sync(kWholeWarp, half_sum, 1);
  half_sum += __shfl_xor_sync(kWholeWarp, half_sum, 2);
  const int sum = half_sum + __shfl_xor_sync(kWholeWarp, half_sum, 4);

  Int8Block& block = out[row / 8 * n_blocks + k / 32];
  const int column = static_cast<int>(row % 8), t = lane_id() % 4, half = lane_id() / 4 % 2;
  uint32_t* const words = &block.codes[column * 4 + t].x;
  words[half] = codes;
  if (t == 0) block.half_sums[column / 2][half][column % 2] = -(scale * static_cast<float>(half_sum));
  if (t == 0 && half == 0) {
    Int8Block::Pair& pair = block.columns[column / 2];
    pair.scale[column % 2] = scale;
    pair.sums[column % 2] = -(scale * static_cast<float>(sum));
  }
}

}  // namespace

size_t Int8Activations::bytes_for(int64_t max_rows, int64_t max_cols) {
  return static_cast<size_t>((max_rows + 7) / 8) * static_cast<size_t>(blocks_of(max_cols)) * sizeof(Int8Block);
}

Status Int8Activations::reserve(int64_t max_rows, int64_t max_cols) {
  const size_t bytes = bytes_for(max_rows, max_cols);
  if (bytes <= bytes_) return {};
  if (blocks_) runtime_.free(blocks_);
  blocks_ = nullptr;
  bytes_ = 0;
  auto memory = runtime_.allocate(bytes);
  if (!memory) return memory.error();
  blocks_ = static_cast<Int8Block*>(*memory);
  bytes_ = bytes;
  return {};
}

const Int8Block* Int8Activations::quantize(const float* x, int n_rows, int64_t cols, const int32_t* source) const {
  const int64_t n_blocks = blocks_of(cols);
  const auto pieces = static_cast<unsigned>((n_blocks * 32 + kThreads * kValues - 1) / (kThreads * kValues));
  const dim3 grid{static_cast<unsigned>(n_rows), pieces, 1};
  launch(runtime_, quantize_kernel, grid, kThreads, 0, x, source, cols, n_blocks, blocks_);
  return blocks_;
}

}  // namespace monolith::cuda
