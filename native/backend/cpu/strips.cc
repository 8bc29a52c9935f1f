#include "backend/cpu/strips.h"

#include <cassert>

namespace monolith {

StripLayout strip_layout(TensorType type, int64_t cols) {
  assert(cols > 0 && cols % traits_of(type).block_values == 0);
  // Bytes of each array per strip.
  size_t values = 0, high = 0, scales = 0, minima = 0, d = 0, d_min = 0;
  int64_t padded = cols;
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
      padded = (cols + 15) / 16 * 16;
      values = static_cast<size_t>(padded) * kStripRows * (type == TensorType::kF32 ? 4 : 2);
      break;
    case TensorType::kBF16:
      padded = (cols + 31) / 32 * 32;
      values = static_cast<size_t>(padded) * kStripRows * 2;
      break;
    case TensorType::kQ8_0:
    case TensorType::kQ4_0:
      values = static_cast<size_t>(cols) * kStripRows / (type == TensorType::kQ8_0 ? 1 : 2);
      d = static_cast<size_t>(cols) / 32 * kStripRows * 2;
      break;
    case TensorType::kQ4_K:
      values = static_cast<size_t>(cols) * kStripRows / 2;
      scales = minima = static_cast<size_t>(cols) / 32 * kStripRows;
      d = d_min = static_cast<size_t>(cols) / 256 * kStripRows * 2;
      break;
    case TensorType::kQ6_K:
      values = static_cast<size_t>(cols) * kStripRows / 2;
      high = static_cast<size_t>(cols) * kStripRows / 4;
      scales = static_cast<size_t>(cols) / 16 * kStripRows;
      d = static_cast<size_t>(cols) / 256 * kStripRows * 2;
      break;
  }
  StripLayout layout{};
  layout.type = type;
  layout.cols = cols;
  layout.padded_cols = padded;
  layout.values = 0;
  layout.high = layout.values + values;
  layout.scales = layout.high + high;
  layout.minima = layout.scales + scales;
  layout.d = layout.minima + minima;
  layout.d_min = layout.d + d;
  layout.bytes = (layout.d_min + d_min + 63) / 64 * 64;
  return layout;
}

}  // namespace monolith
