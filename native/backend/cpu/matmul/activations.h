// How matmul packs its input (the activations), once per call for all targets. Rows are grouped into tiles of at most
// MatmulKernels::max_tile_rows. A tile is an array of 64-byte lines [line][row], so a kernel reads one contiguous
// stream and finds row r's line at a constant distance of 64 r bytes. The tile that a row belongs to affects neither
// its lines nor its results.
#pragma once

#include <cstddef>
#include <cstdint>

namespace monolith {

enum class ActivationKind : uint8_t { kInt8, kF32, kBf16 };
inline constexpr int kActivationKinds = 3;
inline constexpr size_t kLineBytes = 64;

constexpr int64_t line_values(ActivationKind kind) { return kind == ActivationKind::kF32 ? 16 : 32; }
constexpr int64_t lines_per_row(ActivationKind kind, int64_t cols) {
  return (cols + line_values(kind) - 1) / line_values(kind);
}

// A line of ActivationKind::kInt8: 32 values as a = round(x * (127 / amax)), ties to even, where amax = max |x|.
// Kernels use the sums to correct for weights that are stored with an offset, and multiply -(scale * sum) by the
// minima. If a block contains NaN or infinity, or its amax is below the minimum (kSmallestAmaxBits), all a are 0 and
// the scale is NaN or 0.
struct alignas(kLineBytes) ActivationBlock {
  int8_t a[32];
  float scale;  // amax / 127.
  int32_t minus_128_sum;
  int32_t minus_8_sum;
  int32_t minus_32_sum[2];         // Sums of the first and the last 16 values, times -32.
  float minus_scaled_sum;          // -(scale * float(sum)).
  float minus_scaled_half_sum[2];  // -(scale * float(sum)) of the first and of the last 16 values.
};
static_assert(sizeof(ActivationBlock) == kLineBytes);

// Bits of 2^-100, which keeps 127 / amax and the products of the scale with weights in the range of normal numbers.
inline constexpr uint32_t kSmallestAmaxBits = 27u << 23;
inline constexpr uint32_t kInfinityBits = 0x7f800000u;

}  // namespace monolith
