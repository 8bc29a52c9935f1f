// The matrix products in portable C++: the reference that every vector version must equal bit for bit
// (strips.h), and what runs where no vector version does. Clear rather than fast.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/matmul_kernels.h"
#include "base/half.h"

namespace monolith {
namespace {

using Bytes = const uint8_t*;

// --- packing ------------------------------------------------------------------------------------------

void pack_int8(const float* x, int64_t cols, std::byte* out, size_t line_stride) {
  for (int64_t k = 0; k < cols; k += 32, out += line_stride) {
    ActivationBlock block{};
    uint32_t amax_bits = 0;   // as integers, magnitudes order like the floats, NaN above infinity
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

// --- products -----------------------------------------------------------------------------------------

const ActivationBlock& block_of(const StripTile& tile, int64_t line, int row) {
  return reinterpret_cast<const ActivationBlock*>(tile.lines)[line * tile.n_rows + row];
}

float half_at(const StripTile& tile, size_t array, int64_t index, int lane) {
  uint16_t bits;
  std::memcpy(&bits, tile.strip + array + (index * kStripRows + lane) * 2, sizeof bits);
  return half_to_float(bits);
}

// sum of four products: bytes of a weight word with four activations.
int dot4(Bytes w, const int8_t* a) { return w[0] * a[0] + w[1] * a[1] + w[2] * a[2] + w[3] * a[3]; }
int dot4_low(Bytes w, const int8_t* a) {
  return (w[0] & 15) * a[0] + (w[1] & 15) * a[1] + (w[2] & 15) * a[2] + (w[3] & 15) * a[3];
}
int dot4_high(Bytes w, const int8_t* a) {
  return (w[0] >> 4) * a[0] + (w[1] >> 4) * a[1] + (w[2] >> 4) * a[2] + (w[3] >> 4) * a[3];
}

// 32 four-bit weights of one lane, without offset, with one activation block.
int dot_nibbles(Bytes lane_words, const ActivationBlock& x) {
  int isum = 0;
  for (int v = 0; v < 4; ++v)
    isum += dot4_low(lane_words + 64 * v, x.a + 8 * v) + dot4_high(lane_words + 64 * v, x.a + 8 * v + 4);
  return isum;
}

Bytes words(const StripTile& tile, size_t array, int lane) {
  return reinterpret_cast<Bytes>(tile.strip) + array + 4 * lane;
}

float q8_0(const StripTile& tile, int row, int lane) {
  Bytes w = words(tile, tile.layout->values, lane);
  float acc = 0;
  for (int64_t block = 0; block < tile.layout->cols / 32; ++block, w += 512) {
    const ActivationBlock& x = block_of(tile, block, row);
    int isum = x.minus_128_sum;
    for (int g = 0; g < 8; ++g) isum += dot4(w + 64 * g, x.a + 4 * g);
    const float d = half_at(tile, tile.layout->d, block, lane);
    acc = std::fma(static_cast<float>(isum) * d, x.scale, acc);
  }
  return acc;
}

float q4_0(const StripTile& tile, int row, int lane) {
  Bytes w = words(tile, tile.layout->values, lane);
  float acc = 0;
  for (int64_t block = 0; block < tile.layout->cols / 32; ++block, w += 256) {
    const ActivationBlock& x = block_of(tile, block, row);
    const int isum = x.minus_8_sum + dot_nibbles(w, x);
    const float d = half_at(tile, tile.layout->d, block, lane);
    acc = std::fma(static_cast<float>(isum) * d, x.scale, acc);
  }
  return acc;
}

float q4_k(const StripTile& tile, int row, int lane) {
  const StripLayout& layout = *tile.layout;
  Bytes w = words(tile, layout.values, lane), strip = reinterpret_cast<Bytes>(tile.strip);
  float acc = 0;
  for (int64_t block = 0; block < layout.cols / 32; ++block, w += 256) {
    const ActivationBlock& x = block_of(tile, block, row);
    const int64_t at = block * kStripRows + lane;
    const float step =
        half_at(tile, layout.d, block / 8, lane) * static_cast<float>(strip[layout.scales + at]);
    const float floor =
        half_at(tile, layout.d_min, block / 8, lane) * static_cast<float>(strip[layout.minima + at]);
    acc = std::fma(static_cast<float>(dot_nibbles(w, x)) * step, x.scale, acc);
    acc = std::fma(floor, x.minus_scaled_sum, acc);
  }
  return acc;
}

float q6_k(const StripTile& tile, int row, int lane) {
  const StripLayout& layout = *tile.layout;
  Bytes low = words(tile, layout.values, lane), high = words(tile, layout.high, lane);
  const std::byte* scales = tile.strip + layout.scales;
  float acc = 0;
  for (int64_t block = 0; block < layout.cols / 32; ++block) {
    const ActivationBlock& x = block_of(tile, block, row);
    const float d = half_at(tile, layout.d, block / 8, lane);
    int isum[2];
    float step[2];
    for (int half = 0; half < 2; ++half, low += 128, high += 64) {
      isum[half] = x.minus_32_sum[half];
      for (int i = 0; i < 16; ++i) {
        const int nibble = (low[64 * (i / 8) + i % 4] >> (i % 8 < 4 ? 0 : 4)) & 15;
        const int pair = (high[i % 4] >> (i / 4 * 2)) & 3;
        isum[half] += (nibble | pair << 4) * x.a[16 * half + i];
      }
      step[half] = d * static_cast<float>(static_cast<int8_t>(scales[(block * 2 + half) * kStripRows + lane]));
    }
    const float sum = std::fma(static_cast<float>(isum[1]), step[1], static_cast<float>(isum[0]) * step[0]);
    acc = std::fma(sum, x.scale, acc);
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
float f16_weight(const StripTile& tile, int64_t k, int lane) { return half_at(tile, 0, k, lane); }
float bf16_weight(const StripTile& tile, int64_t k, int lane) {
  return bfloat16_to_float(
      reinterpret_cast<const uint16_t*>(tile.strip)[(k / 2 * kStripRows + lane) * 2 + k % 2]);
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
    .activation = {ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kInt8,
                   ActivationKind::kInt8, ActivationKind::kInt8, ActivationKind::kInt8},
    .strip = {strip<floats<f32_weight>>, strip<floats<f16_weight>>, strip<floats<bf16_weight>>, strip<q8_0>,
              strip<q4_0>, strip<q4_k>, strip<q6_k>},
};

}  // namespace monolith
