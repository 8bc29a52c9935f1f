// Matmul kernels in portable C++: the reference that every vector version must match bit for bit (strips.h), and the
// fallback for processors without a vector version. Written for clarity, not speed.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/matmul/kernels.h"
#include "backend/cpu/matmul/strips_plain.h"
#include "base/half.h"

namespace monolith {
namespace {

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    ActivationBlock block{};
    uint32_t amax_bits = 0;  // Compared as integers, float magnitudes keep their order, with NaN above infinity.
    for (int i = 0; i < 32; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(x[k + i]) & 0x7fffffffu;
      if (magnitude > amax_bits) amax_bits = magnitude;
    }
    if (amax_bits >= kInfinityBits) {
      block.scale = std::numeric_limits<float>::quiet_NaN();
    } else if (amax_bits >= kSmallestAmaxBits) {
      const float amax = std::bit_cast<float>(amax_bits);
      const float inverse = 127.0f / amax;
      block.scale = amax / 127.0f;
      int32_t sums[2] = {0, 0};
      for (int i = 0; i < 32; ++i) {
        block.a[i] = static_cast<int8_t>(std::lrint(x[k + i] * inverse));
        sums[i / 16] += block.a[i];
      }
      const int32_t sum = sums[0] + sums[1];
      block.minus_128_sum = -128 * sum;
      block.minus_8_sum = -8 * sum;
      block.minus_32_sum[0] = -32 * sums[0];
      block.minus_32_sum[1] = -32 * sums[1];
      block.minus_scaled_sum = -(block.scale * static_cast<float>(sum));
      for (int h = 0; h < 2; ++h) block.minus_scaled_half_sum[h] = -(block.scale * static_cast<float>(sums[h]));
    }
    std::memcpy(out, &block, sizeof block);
  }
}

void pack_f32(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 16, out += line_stride) {
    const int64_t count = cols - k < 16 ? cols - k : 16;
    float line[16] = {};
    std::memcpy(line, x + k, static_cast<size_t>(count) * sizeof(float));
    std::memcpy(out, line, sizeof line);
  }
}

// --- matmul -------------------------------------------------------------------------------------------

const ActivationBlock& block_of(const StripTile& tile, int64_t line, int row) {
  return reinterpret_cast<const ActivationBlock*>(tile.lines)[line * tile.n_rows + row];
}

template <TensorType T>
float quantized(const StripTile& tile, int row, int lane) {
  using Strip = StripOf<T>;
  const Strip strip(tile.strip, tile.halves, *tile.layout);
  float acc = 0;
  for (int64_t block = 0; block < tile.layout->cols / 32; ++block) {
    const ActivationBlock& x = block_of(tile, block, row);
    const int64_t k = block * 32;
    int isum[2] = {0, 0};
    for (int i = 0; i < 32; ++i) isum[i / 16] += strip.q(k + i, lane) * x.a[i];
    if constexpr (Strip::form.step == 32) {
      acc = std::fma(static_cast<float>(isum[0] + isum[1]) * strip.step(k, lane), x.scale, acc);
      if constexpr (Strip::form.minima) acc = std::fma(strip.floor(k, lane), x.minus_scaled_sum, acc);
    } else {
      const float sum = std::fma(static_cast<float>(isum[1]), strip.step(k + 16, lane),
                                 static_cast<float>(isum[0]) * strip.step(k, lane));
      acc = std::fma(sum, x.scale, acc);
      if constexpr (Strip::form.minima)
        for (int h = 0; h < 2; ++h) acc = std::fma(strip.floor(k + 16 * h, lane), x.minus_scaled_half_sum[h], acc);
    }
  }
  return acc;
}

template <float (*weight)(const StripTile& tile, int64_t k, int lane)>
float floats(const StripTile& tile, int row, int lane) {
  const float* x = reinterpret_cast<const float*>(tile.lines);
  float acc[2] = {0, 0};
  for (int64_t k = 0; k < tile.layout->cols; ++k)
    acc[k % 2] = std::fma(weight(tile, k, lane), x[(k / 16 * tile.n_rows + row) * 16 + k % 16], acc[k % 2]);
  return acc[0] + acc[1];
}
float f32_weight(const StripTile& tile, int64_t k, int lane) {
  return reinterpret_cast<const float*>(tile.strip)[k * kStripRows + lane];
}
float f16_weight(const StripTile& tile, int64_t k, int lane) {
  return half_to_float(reinterpret_cast<const uint16_t*>(tile.strip)[k * kStripRows + lane]);
}
float bf16_weight(const StripTile& tile, int64_t k, int lane) {
  return bfloat16_to_float(reinterpret_cast<const uint16_t*>(tile.strip)[(k / 2 * kStripRows + lane) * 2 + k % 2]);
}

float f8_weight(const StripTile& tile, int64_t k, int lane) {
  return f8_value(reinterpret_cast<const uint8_t*>(tile.strip), k, lane);
}

template <float (*product)(const StripTile& tile, int row, int lane)>
void strip(const StripTile& tile) {
  for (int row = 0; row < tile.n_rows; ++row) {
    for (int lane = 0; lane < tile.lanes; ++lane) {
      float value = product(tile, row, lane);
      float& out = tile.out[row * tile.out_stride + lane];
      if (tile.bias) value = value + tile.bias[lane];
      if (tile.add_to_out) value = out + value;
      out = value;
    }
  }
}

constinit std::atomic<uint64_t> calls{0};

}  // namespace

constinit const MatmulKernels kPlainMatmul = {
    .name = "plain",
    .calls = &calls,
    .max_tile_rows = 8,
    .pack = {pack_int8, pack_f32, nullptr},
    .activation = kUsualActivations,
    .strip = {strip<floats<f32_weight>>,
              strip<floats<f16_weight>>,
              strip<floats<bf16_weight>>,
              strip<quantized<TensorType::kQ8_0>>,
              strip<quantized<TensorType::kQ4_0>>,
              strip<quantized<TensorType::kQ4_1>>,
              strip<quantized<TensorType::kQ5_0>>,
              strip<quantized<TensorType::kQ5_1>>,
              strip<quantized<TensorType::kIQ4_NL>>,
              strip<quantized<TensorType::kMXFP4>>,
              strip<quantized<TensorType::kQ2_K>>,
              strip<quantized<TensorType::kQ3_K>>,
              strip<quantized<TensorType::kQ4_K>>,
              strip<quantized<TensorType::kQ5_K>>,
              strip<quantized<TensorType::kQ6_K>>,
              strip<quantized<TensorType::kIQ4_XS>>,
              strip<quantized<TensorType::kIQ1_S>>,
              strip<quantized<TensorType::kIQ1_M>>,
              strip<quantized<TensorType::kIQ2_XXS>>,
              strip<quantized<TensorType::kIQ2_XS>>,
              strip<quantized<TensorType::kIQ2_S>>,
              strip<quantized<TensorType::kIQ3_XXS>>,
              strip<quantized<TensorType::kIQ3_S>>,
              strip<quantized<TensorType::kTQ1_0>>,
              strip<quantized<TensorType::kTQ2_0>>,
              strip<quantized<TensorType::kNVFP4>>,
              strip<floats<f8_weight>>},
};

}  // namespace monolith
