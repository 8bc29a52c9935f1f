#include "backend/cuda/quant/form.h"

#include <cstring>
#include <optional>

#include "formats/gguf/expanded_types.h"

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
    case TensorType::kIQ1_S:
    case TensorType::kIQ1_M:
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S: return Kind{kLevels3, kSigned16, 1};
    case TensorType::kIQ3_XXS:
    case TensorType::kIQ3_S: return Kind{kLevels4By16, kSigned16, 0};
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0: return Kind{kU3, kNibbles, 0};
    case TensorType::kNVFP4: return Kind{kLevels4By16, kScale16, 0};
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
    case Numbers::kScale16: return {1, 128};
  }
  return {};
}

// The codebook of a type; null if codes are used as numbers without a codebook. For types with one scale per 16 values,
// `factor` scales the codebook to eight times its nominal values.
struct Levels {
  const int8_t* of = nullptr;
  int factor = 1;
};
Levels levels_of(TensorType type) {
  switch (type) {
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS: return {kIq4Levels, 1};
    case TensorType::kMXFP4: return {kMxfp4Levels, 1};
    case TensorType::kNVFP4: return {kMxfp4Levels, 8};
    case TensorType::kIQ1_S:
    case TensorType::kIQ1_M: return {kIq1mLevels, 1};
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S: return {kIq2Levels, 1};
    case TensorType::kIQ3_XXS: return {kIq3xxsLevels, 1};
    case TensorType::kIQ3_S: return {kIq3sLevels, 8};
    default: return {};
  }
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
  // Rounded up to whole cache lines.
  layout.tile_bytes = (layout.numbers_at() + groups * numbers.bytes + 127) / 128 * 128;
  if (const Levels known = levels_of(type); known.of) {
    int8_t levels[16];
    for (int i = 0; i < 16; ++i) levels[i] = static_cast<int8_t>(known.of[i] * known.factor);
    std::memcpy(&layout.levels, levels, sizeof levels);
  }
  return layout;
}

}  // namespace monolith::cuda
