#include "backend/cuda/quant/form.h"

#include <cstring>

namespace monolith::cuda {
namespace {

struct Kind {
  QuantShape shape;
  Numbers numbers;
  int high_bits;
};

Kind kind_of(TensorType type) {
  using enum QuantShape;
  using enum Numbers;
  switch (type) {
    case TensorType::kQ8_0: return {kS8, kHalf, 0};
    case TensorType::kQ4_0: return {kS4, kHalf, 0};
    case TensorType::kQ4_1: return {kU4, kHalfMin, 0};
    case TensorType::kQ5_0: return {kU5, kHalf, 1};
    case TensorType::kQ5_1: return {kU5, kHalfMin, 1};
    case TensorType::kIQ4_NL: return {kLevels4, kHalf, 0};
    case TensorType::kMXFP4: return {kLevels4, kPower, 0};
    case TensorType::kQ2_K: return {kU3, kNibbles, 0};
    case TensorType::kQ3_K: return {kU3, kSigned16, 1};
    case TensorType::kQ4_K: return {kU4, kSix, 0};
    case TensorType::kQ5_K: return {kU5, kSix, 1};
    case TensorType::kQ6_K: return {kS6, kSigned16, 2};
    case TensorType::kIQ4_XS: return {kLevels4, kSigned32, 0};
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kF8E4M3: break;
  }
  return {};
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

bool is_quantized(TensorType type) {
  return traits_of(type).block_values > 1;
}

QuantLayout quant_layout(TensorType type, int64_t rows, int64_t cols) {
  const Kind kind = kind_of(type);
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
