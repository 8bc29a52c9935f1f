// The layouts are documented in tensor_type.cc. Scales are chosen as in llama.cpp's reference quantization, so
// quantizing at load time produces the same bytes as quantizing the file with llama.cpp.
#include "formats/gguf/quantize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace monolith {
namespace {

constexpr int kBlock = 32;

uint8_t* put_half(float value, uint8_t* out) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(out, &bits, sizeof bits);
  return out + sizeof bits;
}

// Quantizes a block to Q8_0. The scale maps the largest magnitude to 127.
void store_q8_0(const float* x, uint8_t* out) {
  float most = 0;
  for (int i = 0; i < kBlock; ++i) most = std::max(most, std::fabs(x[i]));
  const float scale = most / 127.0f;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  out = put_half(scale, out);
  for (int i = 0; i < kBlock; ++i) {
    // Rounds half away from zero. NaN fails the comparison below and becomes 0. The scale ensures that no finite value
    // exceeds 127.
    const float scaled = x[i] * inverse;
    const float rounded = scaled >= 0 ? std::floor(scaled + 0.5f) : std::ceil(scaled - 0.5f);
    out[i] = static_cast<uint8_t>(static_cast<int8_t>(std::fabs(rounded) <= 127.0f ? rounded : 0.0f));
  }
}

// Quantizes a block to Q4_0. The value with the largest magnitude becomes -8; no other code has that magnitude.
void store_q4_0(const float* x, uint8_t* out) {
  float most = 0, extreme = 0;
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(x[i]) <= most) continue;
    most = std::fabs(x[i]);
    extreme = x[i];
  }
  const float scale = extreme / -8.0f;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  out = put_half(scale, out);
  const auto nibble = [inverse](float value) {
    const float shifted = value * inverse + 8.5f;
    return static_cast<uint8_t>(shifted > 0 ? std::min(shifted, 15.0f) : 0.0f);
  };
  for (int i = 0; i < kBlock / 2; ++i) out[i] = static_cast<uint8_t>(nibble(x[i]) | nibble(x[i + kBlock / 2]) << 4);
}

// Quantizes one block. store_of() returns null for types that quantize() does not support.
using Store = void (*)(const float*, uint8_t*);
Store store_of(TensorType type) {
  switch (type) {
    case TensorType::kQ8_0: return store_q8_0;
    case TensorType::kQ4_0: return store_q4_0;
    case TensorType::kQ4_K: return store_q4_k;
    case TensorType::kQ6_K: return store_q6_k;
    default: return nullptr;
  }
}

}  // namespace

bool can_quantize(TensorType type) { return type == TensorType::kF32 || store_of(type) != nullptr; }

void quantize(TensorType type, const float* values, int64_t count, void* out) {
  assert(can_quantize(type));
  if (type == TensorType::kF32) {
    std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const Store store = store_of(type);
  auto* block = static_cast<uint8_t*>(out);
  const TensorTypeTraits& traits = traits_of(type);
  for (int64_t at = 0; at < count; at += traits.block_values, block += traits.block_bytes) store(values + at, block);
}

}  // namespace monolith
