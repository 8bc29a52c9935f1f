#include "backend/cpu/matrix_data.h"

uint32_t Random::bits() {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>(state_ >> 32);
}

BlockScales block_scales(monolith::TensorType type) {
  using monolith::TensorType;
  switch (type) {
    case TensorType::kQ2_K: return {80, 4};
    case TensorType::kQ3_K: return {108, 2};
    case TensorType::kQ6_K: return {208, 2};
    case TensorType::kMXFP4: return {0, 1};
    case TensorType::kNVFP4: return {0, 0};
    case TensorType::kTQ1_0: return {52, 2};
    case TensorType::kTQ2_0: return {64, 2};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K: return {0, 4};
    default: return {0, 2};
  }
}

float largest_value(monolith::TensorType type) {
  using monolith::TensorType;
  switch (type) {
    case TensorType::kQ8_0:
    case TensorType::kIQ4_NL: return 128;
    case TensorType::kQ4_0: return 8;
    case TensorType::kQ4_1:
    case TensorType::kQ5_0: return 16;
    case TensorType::kQ5_1: return 32;
    case TensorType::kQ2_K: return 45;
    case TensorType::kQ3_K: return 128;
    case TensorType::kQ4_K: return 945;
    case TensorType::kQ5_K: return 1953;
    case TensorType::kQ6_K:
    case TensorType::kIQ4_XS: return 4096;
    case TensorType::kIQ1_S: return 17;
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S: return 167;
    case TensorType::kIQ3_XXS:
    case TensorType::kIQ3_S: return 480;
    case TensorType::kTQ2_0: return 2;
    default: return 1;
  }
}

std::vector<std::byte> matrix_data(monolith::TensorType type, int64_t rows, int64_t cols, uint64_t seed, float size) {
  using monolith::TensorType;
  const auto& traits = monolith::traits_of(type);
  if (type == TensorType::kF8Scaled) {  // FP8: all codes except NaN, with block scales.
    Random codes(seed);
    std::vector<std::byte> data;
    for (int64_t block = 0; block < rows * cols / traits.block_values; ++block) {
      const float scale = codes.uniform() * size / 448;
      const auto* const bytes = reinterpret_cast<const std::byte*>(&scale);
      data.insert(data.end(), bytes, bytes + sizeof scale);
      for (int i = 0; i < traits.block_values; ++i) {
        const auto code = static_cast<uint8_t>(codes.bits() >> 24);
        data.push_back(static_cast<std::byte>((code & 0x7f) == 0x7f ? code - 1 : code));
      }
    }
    return data;
  }
  const int64_t blocks = rows * cols / traits.block_values;
  std::vector<std::byte> data(static_cast<size_t>(blocks * traits.block_bytes));
  Random random(seed * 100 + static_cast<uint64_t>(type));
  const BlockScales scales = block_scales(type);
  for (int64_t i = 0; i < blocks; ++i) {
    std::byte* block = &data[static_cast<size_t>(i * traits.block_bytes)];
    for (int64_t j = 0; j < traits.block_bytes; ++j) block[j] = static_cast<std::byte>(random.bits());
    const auto put_half = [&](int at, float value) {
      const uint16_t half = monolith::float_to_half(value);
      std::memcpy(block + at, &half, sizeof half);
    };
    const float value = random.uniform() * size;
    switch (type) {
      case TensorType::kF32: std::memcpy(block, &value, sizeof value); break;
      case TensorType::kF16: put_half(0, value); break;
      case TensorType::kBF16: {
        const uint16_t bits = monolith::float_to_bfloat16(value);
        std::memcpy(block, &bits, sizeof bits);
        break;
      }
      case TensorType::kMXFP4:
        block[0] = static_cast<std::byte>(118 + std::ilogb(size) + static_cast<int>(random.bits() % 8));
        break;
      case TensorType::kNVFP4:  // NVFP4: the values of a block are at most 12 times this scale.
        for (int j = 0; j < 4; ++j)
          block[j] = static_cast<std::byte>(8 * (std::ilogb(size) + 3) + static_cast<int>(random.bits() % 16));
        break;
      case TensorType::kIQ1_M: {  // IQ1_M: the scale d is stored in the upper nibbles of four words.
        const uint16_t half = monolith::float_to_half(value / 17);
        for (int j = 0; j < 4; ++j)
          block[49 + 2 * j] = (block[49 + 2 * j] & std::byte{15}) | static_cast<std::byte>((half >> (4 * j) & 15) << 4);
        break;
      }
      default:
        put_half(scales.at, value / largest_value(type));
        if (scales.bytes == 4) put_half(scales.at + 2, random.uniform() * size / (traits.block_values == 32 ? 1 : 64));
    }
  }
  return data;
}
