// Random weight matrices in every encoding, for tests: all bit patterns of the quantized values occur.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "model/gguf/tensor_type.h"

inline constexpr monolith::TensorType kAllTypes[] = {
    monolith::TensorType::kF32,  monolith::TensorType::kF16,  monolith::TensorType::kBF16,
    monolith::TensorType::kQ8_0, monolith::TensorType::kQ4_0, monolith::TensorType::kQ4_K,
    monolith::TensorType::kQ6_K};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }
  float uniform() { return static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f; }   // [-1, 1)

 private:
  uint64_t state_;
};

// rows x cols of `type`, of about unit size.
inline std::vector<std::byte> matrix_data(monolith::TensorType type, int64_t rows, int64_t cols, uint64_t seed) {
  using monolith::TensorType;
  const auto& traits = monolith::traits_of(type);
  const int64_t blocks = rows * cols / traits.block_values;
  std::vector<std::byte> data(static_cast<size_t>(blocks * traits.block_bytes));
  Random random(seed * 100 + static_cast<uint64_t>(type));
  for (int64_t i = 0; i < blocks; ++i) {
    std::byte* block = &data[static_cast<size_t>(i * traits.block_bytes)];
    for (int64_t j = 0; j < traits.block_bytes; ++j) block[j] = static_cast<std::byte>(random.bits());
    const auto put_half = [&](int at, float value) {
      const uint16_t half = monolith::float_to_half(value);
      std::memcpy(block + at, &half, sizeof half);
    };
    const float value = random.uniform();
    switch (type) {
      case TensorType::kF32: std::memcpy(block, &value, sizeof value); break;
      case TensorType::kF16: put_half(0, value); break;
      case TensorType::kBF16: {
        const uint16_t bits = monolith::float_to_bfloat16(value);
        std::memcpy(block, &bits, sizeof bits);
        break;
      }
      case TensorType::kQ8_0: put_half(0, value / 128); break;
      case TensorType::kQ4_0: put_half(0, value / 8); break;
      case TensorType::kQ4_K:
        put_half(0, value / 1000);
        put_half(2, random.uniform() / 64);
        break;
      case TensorType::kQ6_K: put_half(208, value / 4096); break;
    }
  }
  return data;
}
