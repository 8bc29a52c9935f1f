// Sizes and names of the tensor encodings, and a scalar decoder for each. Pure functions that may be called from any
// thread. The layouts match ggml's block structs (https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h).
#include "formats/gguf/tensor_type.h"

#include <cassert>
#include <cstddef>
#include <cstring>

#include "base/float8.h"
#include "base/half.h"
#include "formats/gguf/expanded_types.h"

namespace monolith {
namespace {

struct NamedTraits {
  TensorType type;
  TensorTypeTraits traits;
};
constexpr NamedTraits kSupported[] = {
    {TensorType::kF32, {"F32", 1, 4}},
    {TensorType::kF16, {"F16", 1, 2}},
    {TensorType::kQ4_0, {"Q4_0", 32, 18}},
    {TensorType::kQ4_1, {"Q4_1", 32, 20}},
    {TensorType::kQ5_0, {"Q5_0", 32, 22}},
    {TensorType::kQ5_1, {"Q5_1", 32, 24}},
    {TensorType::kQ8_0, {"Q8_0", 32, 34}},
    {TensorType::kQ2_K, {"Q2_K", 256, 84}},
    {TensorType::kQ3_K, {"Q3_K", 256, 110}},
    {TensorType::kQ4_K, {"Q4_K", 256, 144}},
    {TensorType::kQ5_K, {"Q5_K", 256, 176}},
    {TensorType::kQ6_K, {"Q6_K", 256, 210}},
    {TensorType::kIQ4_NL, {"IQ4_NL", 32, 18}},
    {TensorType::kIQ4_XS, {"IQ4_XS", 256, 136}},
    {TensorType::kBF16, {"BF16", 1, 2}},
    {TensorType::kMXFP4, {"MXFP4", 32, 17}},
    {TensorType::kIQ1_S, {"IQ1_S", 256, 50}},
    {TensorType::kIQ1_M, {"IQ1_M", 256, 56}},
    {TensorType::kIQ2_XXS, {"IQ2_XXS", 256, 66}},
    {TensorType::kIQ2_XS, {"IQ2_XS", 256, 74}},
    {TensorType::kIQ2_S, {"IQ2_S", 256, 82}},
    {TensorType::kIQ3_XXS, {"IQ3_XXS", 256, 98}},
    {TensorType::kIQ3_S, {"IQ3_S", 256, 110}},
    {TensorType::kTQ1_0, {"TQ1_0", 256, 54}},
    {TensorType::kTQ2_0, {"TQ2_0", 256, 66}},
    {TensorType::kNVFP4, {"NVFP4", 64, 36}},
    {TensorType::kI32, {"I32", 1, 4}},
    {TensorType::kI64, {"I64", 1, 8}},
};

// Indexed by ggml_type. Types that ggml has removed are listed under their former names.
constexpr std::string_view kNames[] = {
    "F32",        "F16",        "Q4_0",       "Q4_1",  "Q4_2",     "Q4_3",     "Q5_0",     "Q5_1",    "Q8_0",
    "Q8_1",       "Q2_K",       "Q3_K",       "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
    "I64",        "F64",        "IQ1_M",      "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0",
    "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4",    "Q1_0",     "Q2_0",
};

using Bytes = const uint8_t*;

uint16_t load_16(Bytes at) {  // Weights may be unaligned.
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

float load_half(Bytes at) { return half_to_float(load_16(at)); }

// Q8_0: 32 values. A scale d, then int8 q. value = d * q.
void decode_q8_0(Bytes block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// Q4_0: 32 values. A scale d, then 16 bytes whose low nibbles are values 0..15 and whose high nibbles are values
// 16..31. value = d * (q - 8).
void decode_q4_0(Bytes block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

// Q4_1: 32 values. A scale d, a minimum m, then nibbles as in Q4_0. value = d * q + m.
void decode_q4_1(Bytes block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(block[4 + i] >> 4) + m;
  }
}

// Five-bit codes: the fifth bit of value i is bit i of a little-endian 32-bit word, and the lower four bits are nibbles
// as in Q4_0.
int five_bits(Bytes fifth, Bytes nibbles, int i) {
  const int nibble = (nibbles[i % 16] >> (i < 16 ? 0 : 4)) & 15;
  return nibble | ((fifth[i / 8] >> (i % 8)) & 1) << 4;
}

// Q5_0: 32 values. A scale d, the fifth bits, nibbles. value = d * (q - 16).
void decode_q5_0(Bytes block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(block + 2, block + 6, i) - 16);
}

// Q5_1: 32 values. A scale d, a minimum m, the fifth bits, nibbles. value = d * q + m.
void decode_q5_1(Bytes block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(block + 4, block + 8, i)) + m;
}

// IQ4_NL: 32 values. A scale d, nibbles as in Q4_0. value = d * kIq4Levels[q].
void decode_iq4_nl(Bytes block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(kIq4Levels[block[2 + i] & 15]);
    out[i + 16] = d * static_cast<float>(kIq4Levels[block[2 + i] >> 4]);
  }
}

// MXFP4: 32 values. An exponent e, nibbles as in Q4_0. value = 2^(e - 128) * kMxfp4Levels[q]. The factor is half of the
// format's 2^(e - 127) because the levels are doubled. The OCP specification defines e = 255 as NaN, but the programs
// that write such files treat it as 2^128. This decoder does the same.
void decode_mxfp4(Bytes block, float* out) {
  const float step = mxfp4_step(block[0]);
  for (int i = 0; i < 16; ++i) {
    out[i] = step * static_cast<float>(kMxfp4Levels[block[1 + i] & 15]);
    out[i + 16] = step * static_cast<float>(kMxfp4Levels[block[1 + i] >> 4]);
  }
}

// NVFP4: 64 values in groups of 16. Four scales, then 8 bytes per group: values 0..7 of the group in the low nibbles,
// values 8..15 in the high nibbles. value = nvfp4_step(scale) * kMxfp4Levels[q], exact in float32.
void decode_nvfp4(Bytes block, float* out) {
  for (int group = 0; group < 4; ++group, out += 16) {
    const float step = nvfp4_step(block[group]);
    Bytes quants = block + 4 + 8 * group;
    for (int i = 0; i < 8; ++i) {
      out[i] = step * static_cast<float>(kMxfp4Levels[quants[i] & 15]);
      out[i + 8] = step * static_cast<float>(kMxfp4Levels[quants[i] >> 4]);
    }
  }
}

// Unpacks scale and minimum `i` of a Q4_K block: eight pairs of 6-bit numbers in 12 bytes. The first four scales and
// minima are the low six bits of bytes 0..3 and 4..7. The last four take their low nibbles from bytes 8..11, and their
// upper two bits from the top bits of bytes 0..3 (scales) and 4..7 (minima).
void q4_k_scale(Bytes packed, int i, int* scale, int* minimum) {
  if (i < 4) {
    *scale = packed[i] & 63;
    *minimum = packed[i + 4] & 63;
  } else {
    *scale = (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4;
    *minimum = (packed[i + 4] >> 4) | (packed[i] >> 6) << 4;
  }
}

// Q2_K: 256 values in groups of 16. 16 bytes (low nibble: scale, high nibble: minimum), 64 bytes of codes, d, d_min.
// Each group of 32 bytes holds 128 codes: bits 2j and 2j + 1 of byte i are value 32 j + i. value = d * scale * q -
// d_min * minimum. Both products are exact in float32.
void decode_q2_k(Bytes block, float* out) {
  Bytes scales = block, quants = block + 16;
  const float d = load_half(block + 80), d_min = load_half(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int q = (quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const float step = d * static_cast<float>(scales[i / 16] & 15);
    out[i] = step * static_cast<float>(q) - d_min * static_cast<float>(scales[i / 16] >> 4);
  }
}

// Unpacks scale `i` of a Q3_K block: sixteen 6-bit numbers in 12 bytes. For i < 8, the low four bits are the low nibble
// of byte i; for i >= 8, the high nibble of byte i - 8. The upper two bits are bits 2 (i / 4) and 2 (i / 4) + 1 of byte
// 8 + i % 4.
int q3_k_scale(Bytes packed, int i) {
  return ((packed[i % 8] >> (i < 8 ? 0 : 4) & 15) | (packed[8 + i % 4] >> (i / 4 * 2) & 3) << 4) - 32;
}

// Q3_K: 256 values in groups of 16. 32 bytes of third bits (value i: byte i % 32, bit i / 32), 64 bytes of 2-bit codes
// as in Q2_K, 12 bytes of scales, d. value = d * scale * (q - 4), exact in float32.
void decode_q3_k(Bytes block, float* out) {
  Bytes third = block, quants = block + 32;
  const float d = load_half(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int pair = (quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const int q = (pair | (third[i % 32] >> (i / 32) & 1) << 2) - 4;
    out[i] = d * static_cast<float>(q3_k_scale(block + 96, i / 16)) * static_cast<float>(q);
  }
}

// Q4_K: 256 values in eight groups of 32. d, d_min, 12 bytes of scales, 128 bytes of codes. Each 32 bytes hold two
// groups, the first in the low nibbles. value = d * scale * q - d_min * minimum. Both products are exact in float32.
void decode_q4_k(Bytes block, float* out) {
  const float d = load_half(block), d_min = load_half(block + 2);
  Bytes packed = block + 4, quants = block + 16;
  for (int group = 0; group < 8; ++group) {
    int scale, minimum;
    q4_k_scale(packed, group, &scale, &minimum);
    const float step = d * static_cast<float>(scale), offset = d_min * static_cast<float>(minimum);
    Bytes q = quants + 32 * (group / 2);
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i) out[32 * group + i] = step * static_cast<float>((q[i] >> shift) & 15) - offset;
  }
}

// Q5_K: like Q4_K, but with 32 bytes of fifth bits before the nibbles. Bit g of byte i belongs to value i of group g.
void decode_q5_k(Bytes block, float* out) {
  const float d = load_half(block), d_min = load_half(block + 2);
  Bytes packed = block + 4, fifth = block + 16, quants = block + 48;
  for (int group = 0; group < 8; ++group) {
    int scale, minimum;
    q4_k_scale(packed, group, &scale, &minimum);
    const float step = d * static_cast<float>(scale), offset = d_min * static_cast<float>(minimum);
    for (int i = 0; i < 32; ++i) {
      const int nibble = (quants[32 * (group / 2) + i] >> (4 * (group % 2))) & 15;
      out[32 * group + i] = step * static_cast<float>(nibble | (fifth[i] >> group & 1) << 4) - offset;
    }
  }
}

// IQ4_XS: 256 values in eight groups of 32. d, the upper two bits of the scales (two little-endian bytes; group g
// starts at bit 2g), the low nibbles of the scales (byte g / 2, low nibble first), 16 bytes of nibbles per group as in
// Q4_0. value = d * (scale - 32) * kIq4Levels[q], exact in float32.
void decode_iq4_xs(Bytes block, float* out) {
  const float d = load_half(block);
  const int upper = load_16(block + 2);
  for (int group = 0; group < 8; ++group, out += 32) {
    const int scale = (block[4 + group / 2] >> (group % 2 * 4) & 15) | (upper >> (2 * group) & 3) << 4;
    const float step = d * static_cast<float>(scale - 32);
    Bytes quants = block + 8 + 16 * group;
    for (int i = 0; i < 16; ++i) {
      out[i] = step * static_cast<float>(kIq4Levels[quants[i] & 15]);
      out[i + 16] = step * static_cast<float>(kIq4Levels[quants[i] >> 4]);
    }
  }
}

// Q6_K: 256 values. 128 bytes of low nibbles, 64 bytes with the upper two bits, 16 int8 scales (one per 16 values), d.
// In each half of 128 values, four groups of 32 share the bytes. Group g takes its nibble from byte (g % 2) * 32 + i
// (the low nibble for g < 2) and its upper bits from bits 2g and 2g + 1 of byte i. value = d * scale * (q - 32).
void decode_q6_k(Bytes block, float* out) {
  Bytes low = block, high = block + 128, scales = block + 192;
  const float d = load_half(block + 208);
  for (int half = 0; half < 2; ++half) {
    for (int group = 0; group < 4; ++group) {
      for (int i = 0; i < 32; ++i) {
        const int nibble = (low[64 * half + 32 * (group % 2) + i] >> (group < 2 ? 0 : 4)) & 15;
        const int pair = (high[32 * half + i] >> (2 * group)) & 3;
        const int scale = static_cast<int8_t>(scales[8 * half + 2 * group + i / 16]);
        out[128 * half + 32 * group + i] =
            d * static_cast<float>(scale) * static_cast<float>((nibble | pair << 4) - 32);
      }
    }
  }
}

}  // namespace

namespace {

// F8Scaled: 128 values. A float32 scale, then 128 E4M3 codes. Each product is rounded once.
void decode_f8_scaled(Bytes block, float* out) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  for (int i = 0; i < 128; ++i) out[i] = e4m3_to_float(block[4 + i]) * scale;
}

}  // namespace

const TensorTypeTraits* tensor_type_traits(uint32_t type) {
  for (const NamedTraits& entry : kSupported)
    if (static_cast<uint32_t>(entry.type) == type) return &entry.traits;
  return nullptr;
}

std::string_view tensor_type_name(uint32_t type) {
  return type < std::size(kNames) ? kNames[type] : std::string_view("unknown");
}

void dequantize(TensorType type, const void* data, int64_t count, float* out) {
  const TensorTypeTraits& traits = traits_of(type);
  assert(count >= 0 && count % traits.block_values == 0);
  Bytes bytes = static_cast<Bytes>(data);
  const auto blocks = [&](void (*decode)(Bytes block, float* out)) {
    for (int64_t i = 0; i < count / traits.block_values; ++i)
      decode(bytes + i * traits.block_bytes, out + i * traits.block_values);
  };
  switch (type) {
    case TensorType::kF32: std::memcpy(out, bytes, static_cast<size_t>(count) * sizeof *out); return;
    case TensorType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = half_to_float(load_16(bytes + 2 * i));
      return;
    case TensorType::kBF16:
      for (int64_t i = 0; i < count; ++i) out[i] = bfloat16_to_float(load_16(bytes + 2 * i));
      return;
    case TensorType::kI32:
      for (int64_t i = 0; i < count; ++i) {
        int32_t number;
        std::memcpy(&number, bytes + 4 * i, sizeof number);
        out[i] = static_cast<float>(number);
      }
      return;
    case TensorType::kI64:
      for (int64_t i = 0; i < count; ++i) {
        int64_t number;
        std::memcpy(&number, bytes + 8 * i, sizeof number);
        out[i] = static_cast<float>(number);
      }
      return;
    case TensorType::kF8E4M3:
      for (int64_t i = 0; i < count; ++i) out[i] = e4m3_to_float(bytes[i]);
      return;
    case TensorType::kF8Scaled: return blocks(decode_f8_scaled);
    case TensorType::kQ8_0: return blocks(decode_q8_0);
    case TensorType::kQ4_0: return blocks(decode_q4_0);
    case TensorType::kQ4_1: return blocks(decode_q4_1);
    case TensorType::kQ5_0: return blocks(decode_q5_0);
    case TensorType::kQ5_1: return blocks(decode_q5_1);
    case TensorType::kIQ4_NL: return blocks(decode_iq4_nl);
    case TensorType::kMXFP4: return blocks(decode_mxfp4);
    case TensorType::kQ2_K: return blocks(decode_q2_k);
    case TensorType::kQ3_K: return blocks(decode_q3_k);
    case TensorType::kQ4_K: return blocks(decode_q4_k);
    case TensorType::kQ5_K: return blocks(decode_q5_k);
    case TensorType::kIQ4_XS: return blocks(decode_iq4_xs);
    case TensorType::kQ6_K: return blocks(decode_q6_k);
    case TensorType::kNVFP4: return blocks(decode_nvfp4);
    case TensorType::kIQ1_S: return blocks(decode_expanded<TensorType::kIQ1_S>);
    case TensorType::kIQ1_M: return blocks(decode_expanded<TensorType::kIQ1_M>);
    case TensorType::kIQ2_XXS: return blocks(decode_expanded<TensorType::kIQ2_XXS>);
    case TensorType::kIQ2_XS: return blocks(decode_expanded<TensorType::kIQ2_XS>);
    case TensorType::kIQ2_S: return blocks(decode_expanded<TensorType::kIQ2_S>);
    case TensorType::kIQ3_XXS: return blocks(decode_expanded<TensorType::kIQ3_XXS>);
    case TensorType::kIQ3_S: return blocks(decode_expanded<TensorType::kIQ3_S>);
    case TensorType::kTQ1_0: return blocks(decode_expanded<TensorType::kTQ1_0>);
    case TensorType::kTQ2_0: return blocks(decode_expanded<TensorType::kTQ2_0>);
  }
}

}  // namespace monolith
