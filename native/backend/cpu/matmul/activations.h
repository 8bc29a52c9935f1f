// How matmul packs its input, once per call for all targets.
//
// Rows are grouped into tiles of at most MatmulKernels::max_tile_rows; a tile is an array of 64-byte
// lines [line][row]: a kernel walks one contiguous stream and finds row r's line at a constant distance
// of 64 r bytes. Which tile a row is in has no influence on its line's content, nor on its results.
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

// ActivationKind::kInt8: 32 values as a = round(x * (127 / amax)), ties to even, where amax = max |x|.
// The sums are what kernels subtract for weights stored with an offset; -(scale * sum) meets the
// minima. A block that holds NaN or infinity, or whose amax is below kSmallestAmax, has a = 0 everywhere;
// its scale is NaN or 0.
struct alignas(kLineBytes) ActivationBlock {
  int8_t a[32];
  float scale;  // amax / 127
  int32_t minus_128_sum;
  int32_t minus_8_sum;
  int32_t minus_32_sum[2];         // of the first and the last 16
  float minus_scaled_sum;          // -(scale * float(sum))
  float minus_scaled_half_sum[2];  // likewise of the first and the last 16
};
static_assert(sizeof(ActivationBlock) == kLineBytes);

// 2^-100: 127 / amax and the scale's products with weights stay normal numbers.
inline constexpr uint32_t kSmallestAmaxBits = 27u << 23;
inline constexpr uint32_t kInfinityBits = 0x7f800000u;

}  // namespace monolith
