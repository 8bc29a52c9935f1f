// Matmul kernels in portable C++: the reference that every vector version must match bit for bit (panels.h), and the
// fallback for processors without a vector version. Written for clarity, not speed.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/matmul/kernels.h"
#include "backend/cpu/matmul/panels_plain.h"
#include "base/half.h"

namespace monolith {
namespace {

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    ActivationBlock block{};
    uint32_t amax_bits = 0;  // Magnitudes compare as integers in the same order, with NaN above infinity.
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

const ActivationBlock& block_of(const PanelTile& tile, int64_t line, int row) {
  return reinterpret_cast<const ActivationBlock*>(tile.lines)[line * tile.n_rows + row];
}

template <TensorType T>
float quantized(const PanelTile& tile, int row, int lane) {
  using Panel = PanelOf<T>;
  const Panel panel(tile.panel, tile.block_scales, *tile.layout);
  float acc = 0;
  for (int64_t block = 0; block < tile.layout->cols / 32; ++block) {
    const ActivationBlock& x = block_of(tile, block, row);
    const int64_t k = block * 32;
    int isum[2] = {0, 0};
    for (int i = 0; i < 32; ++i) isum[i / 16] += panel.q(k + i, lane) * x.a[i];
    if constexpr (Panel::form.step == 32) {
      acc = std::fma(static_cast<float>(isum[0] + isum[1]) * panel.step(k, lane), x.scale, acc);
      if constexpr (Panel::form.minima) acc = std::fma(panel.floor(k, lane), x.minus_scaled_sum, acc);
    } else {
      const float sum = std::fma(static_cast<float>(isum[1]), panel.step(k + 16, lane),
                                 static_cast<float>(isum[0]) * panel.step(k, lane));
      acc = std::fma(sum, x.scale, acc);
      if constexpr (Panel::form.minima)
        for (int h = 0; h < 2; ++h) acc = std::fma(panel.floor(k + 16 * h, lane), x.minus_scaled_half_sum[h], acc);
    }
  }
  return acc;
}

template <float (*weight)(const PanelTile& tile, int64_t k, int lane)>
float floats(const PanelTile& tile, int row, int lane) {
  const float* x = reinterpret_cast<const float*>(tile.lines);
  float acc[2] = {0, 0};
  for (int64_t k = 0; k < tile.layout->cols; ++k)
    acc[k % 2] = std::fma(weight(tile, k, lane), x[(k / 16 * tile.n_rows + row) * 16 + k % 16], acc[k % 2]);
  return acc[0] + acc[1];
}
float f32_weight(const PanelTile& tile, int64_t k, int lane) {
  return reinterpret_cast<const float*>(tile.panel)[k * kPanelRows + lane];
}
float f16_weight(const PanelTile& tile, int64_t k, int lane) {
  return half_to_float(reinterpret_cast<const uint16_t*>(tile.panel)[k * kPanelRows + lane]);
}
float bf16_weight(const PanelTile& tile, int64_t k, int lane) {
  return bfloat16_to_float(reinterpret_cast<const uint16_t*>(tile.panel)[(k / 2 * kPanelRows + lane) * 2 + k % 2]);
}

float f8_weight(const PanelTile& tile, int64_t k, int lane) {
  return f8_value(reinterpret_cast<const uint8_t*>(tile.panel), k, lane);
}

template <float (*product)(const PanelTile& tile, int row, int lane)>
void panel(const PanelTile& tile) {
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
    .panel = {panel<floats<f32_weight>>,
              panel<floats<f16_weight>>,
              panel<floats<bf16_weight>>,
              panel<quantized<TensorType::kQ8_0>>,
              panel<quantized<TensorType::kQ4_0>>,
              panel<quantized<TensorType::kQ4_1>>,
              panel<quantized<TensorType::kQ5_0>>,
              panel<quantized<TensorType::kQ5_1>>,
              panel<quantized<TensorType::kIQ4_NL>>,
              panel<quantized<TensorType::kMXFP4>>,
              panel<quantized<TensorType::kQ2_K>>,
              panel<quantized<TensorType::kQ3_K>>,
              panel<quantized<TensorType::kQ4_K>>,
              panel<quantized<TensorType::kQ5_K>>,
              panel<quantized<TensorType::kQ6_K>>,
              panel<quantized<TensorType::kIQ4_XS>>,
              panel<quantized<TensorType::kIQ1_S>>,
              panel<quantized<TensorType::kIQ1_M>>,
              panel<quantized<TensorType::kIQ2_XXS>>,
              panel<quantized<TensorType::kIQ2_XS>>,
              panel<quantized<TensorType::kIQ2_S>>,
              panel<quantized<TensorType::kIQ3_XXS>>,
              panel<quantized<TensorType::kIQ3_S>>,
              panel<quantized<TensorType::kTQ1_0>>,
              panel<quantized<TensorType::kTQ2_0>>,
              panel<quantized<TensorType::kNVFP4>>,
              panel<floats<f8_weight>>},
};

}  // namespace monolith
