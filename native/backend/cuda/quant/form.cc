#include "backend/cuda/quant/form.h"

#include <cstring>
#include <optional>

namespace monolith::cuda {
namespace {

struct Kind {
  QuantShape shape;
  Numbers numbers;
  int high_bits;
};

std::optional<Kind> kind_of(TensorType type) {
  using enum QuantShape;
  using enum Numbers;
  switch (type) {
    case TensorType::kQ8_0: return Kind{kS8, kHalf, 0};
    case TensorType::kQ4_0: return Kind{kS4, kHalf, 0};
    case TensorType::kQ4_1: return Kind{kU4, kHalfMin, 0};
    case TensorType::kQ5_0: return Kind{kU5, kHalf, 1};
    case TensorType::kQ5_1: return Kind{kU5, kHalfMin, 1};
    case TensorType::kIQ4_NL: return Kind{kLevels4, kHalf, 0};
    case TensorType::kMXFP4: return Kind{kLevels4, kPower, 0};
    case TensorType::kQ2_K: return Kind{kU3, kNibbles, 0};
    case TensorType::kQ3_K: return Kind{kU3, kSigned16, 1};
    case TensorType::kQ4_K: return Kind{kU4, kSix, 0};
    case TensorType::kQ5_K: return Kind{kU5, kSix, 1};
    case TensorType::kQ6_K: return Kind{kS6, kSigned16, 2};
    case TensorType::kIQ4_XS: return Kind{kLevels4, kSigned32, 0};
    default: return {};
  }
}

struct NumbersSize {
  int chunks, bytes;
};
NumbersSize size_of(Numbers numbers) {
  switch (numbers) {
    case Numbers::kHalf: return {1, 128};
    case Numbers::kHalfMin: return {1, 256};
    case Numbers::kPower: return {1, 64};
    case Numbers::kSix: return {2, 256};
    case Numbers::kSigned32: return {2, 160};
    case Numbers::kSigned16: return {2, 288};
    case Numbers::kNibbles: return {2, 320};
  }
  return {};
}

}  // namespace

bool is_quantized(TensorType type) { return kind_of(type).has_value(); }

QuantLayout quant_layout(TensorType type, int64_t rows, int64_t cols) {
  const Kind kind = kind_of(type).value_or(Kind{});
  const NumbersSize numbers = size_of(kind.numbers);
  QuantLayout layout{};
  layout.type = type;
  layout.shape = kind.shape;
  layout.numbers = kind.numbers;
  layout.high_bits = kind.high_bits;
  layout.n_chunks = static_cast<int32_t>((cols + kChunk - 1) / kChunk);
  layout.code_bytes = kTileRows * kChunk / 8 * (form_of(kind.shape).low_bits + kind.high_bits);
  layout.number_chunks = numbers.chunks;
  layout.number_bytes = numbers.bytes;
  layout.rows = rows;
  layout.cols = cols;
  const int64_t groups = (layout.n_chunks + numbers.chunks - 1) / numbers.chunks;
  layout.tile_bytes = (layout.numbers_at() + groups * numbers.bytes + 127) / 128 * 128;   // whole cache lines
  if (type == TensorType::kIQ4_NL || type == TensorType::kIQ4_XS) std::memcpy(&layout.levels, kIq4Levels, 16);
  if (type == TensorType::kMXFP4) std::memcpy(&layout.levels, kMxfp4Levels, 16);
  return layout;
}

}  // namespace monolith::cuda
