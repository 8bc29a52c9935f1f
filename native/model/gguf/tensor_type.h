// The tensor encodings this build computes with. Numbers are GGUF's own (ggml_type in the GGUF spec).
#pragma once

#include <cstdint>
#include <string_view>

namespace monolith {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ6_K = 14,
  kBF16 = 30,
};

// How a type stores a row: `block_values` consecutive values share `block_bytes` bytes.
struct TensorTypeTraits {
  std::string_view name;
  int64_t block_values;
  int64_t block_bytes;
};

// Null if `type` is not one of the above. Any 32-bit number may be passed.
const TensorTypeTraits* tensor_type_traits(uint32_t type);
inline const TensorTypeTraits& traits_of(TensorType type) {
  return *tensor_type_traits(static_cast<uint32_t>(type));
}

// The name the GGUF specification gives a type number, known to this build or not ("Q5_K", "type 99").
// Used in messages; the returned view is static.
std::string_view tensor_type_name(uint32_t type);

// Decodes `count` values (a multiple of block_values) of `type` from `data` to `out`, exactly as the
// format defines them. This is the plain reference every kernel is tested against.
void dequantize(TensorType type, const void* data, int64_t count, float* out);

}  // namespace monolith
