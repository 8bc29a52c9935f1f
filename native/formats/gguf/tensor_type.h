// The tensor encodings that the engine supports. The values equal those of ggml_type in the GGUF specification, except
// for the two FP8 types at the end.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace monolith {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI32 = 26,  // I32 and I64 occur only in lookup tables, never in weights.
  kI64 = 27,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  // Not a GGUF type: E4M3 codes (base/float8.h) whose scales are stored separately.
  kF8E4M3 = 0xf8e4,
  // Not a GGUF type: blocks of a float32 scale and 128 E4M3 codes, produced when a Hugging Face folder is read.
  kF8Scaled = 0xf8e5,
};

// Levels of the 16 codes of IQ4_NL and IQ4_XS, which are closer together near zero than at the ends.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Levels of the 16 codes of MXFP4 and NVFP4, doubled to make them integers. A code has a sign bit, two exponent bits
// and one mantissa bit (OCP Microscaling Formats 1.0, E2M1).
inline constexpr int8_t kMxfp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// The factor for a doubled MXFP4 level with block exponent e: 2^(e - 128), which is subnormal for e = 0 and e = 1.
constexpr float mxfp4_step(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

// The scale of 16 NVFP4 values, halved because the levels are doubled. A scale has four exponent bits and three
// mantissa bits (E4M3); its top bit is ignored. The NaN code 0x7f is treated as 0, as in the programs that write such
// files, and 0xff is treated as 480.
constexpr uint8_t nvfp4_scale_bits(uint8_t scale) { return scale == 0x7f ? 0 : scale & 0x7f; }
constexpr float nvfp4_step(uint8_t scale) {
  const int bits = nvfp4_scale_bits(scale), exponent = bits >> 3, mantissa = bits & 7;
  const float power =
      std::bit_cast<float>(static_cast<uint32_t>(127 + (exponent == 0 ? 1 : exponent) - 7 - 3 - 1) << 23);
  return static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * power;
}

// How a type stores a row: `block_values` consecutive values take `block_bytes` bytes.
struct TensorTypeTraits {
  std::string_view name;
  int64_t block_values;
  int64_t block_bytes;
};

// Returns null if `type` is not one of the GGUF types above. Any 32-bit number may be passed.
const TensorTypeTraits* tensor_type_traits(uint32_t type);
inline constexpr TensorTypeTraits kF8E4M3Traits = {"F8_E4M3", 1, 1}, kF8ScaledTraits = {"F8_E4M3_128", 128, 132};
inline const TensorTypeTraits& traits_of(TensorType type) {
  if (type == TensorType::kF8E4M3) return kF8E4M3Traits;
  return type == TensorType::kF8Scaled ? kF8ScaledTraits : *tensor_type_traits(static_cast<uint32_t>(type));
}
// Whether the type contains floats that quantize() can convert to another type. The blocks of FP8 checkpoints count as
// floats.
inline bool is_float(TensorType type) { return traits_of(type).block_values == 1 || type == TensorType::kF8Scaled; }

// Returns the GGUF specification's name for a type number, or "unknown". Types that the engine does not support have
// names too. For use in messages; the returned view points to static storage.
std::string_view tensor_type_name(uint32_t type);

// Decodes `count` values (a multiple of block_values) of `type` from `data` to `out`, exactly as the format defines.
// This is the scalar reference against which all kernels are tested.
void dequantize(TensorType type, const void* data, int64_t count, float* out);

}  // namespace monolith
