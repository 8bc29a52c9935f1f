// Conversion of 8-bit keys and values (format in kv_cache.h), device code: from float32 to codes and scales, and back,
// one at a time or four at a time.
#pragma once

#include "backend/cuda/device/tensor.h"
#include "backend/cuda/attention/kv_cache.h"

namespace monolith::cuda {

constexpr bool is_8bit(KvType type) { return type == KvType::kQ8_0 || type == KvType::kFp8; }

// Returns the bits of `a` where `mask` is set and the bits of `b` elsewhere.
MONOLITH_DEVICE uint32_t choose_bits(uint32_t mask, uint32_t a, uint32_t b) { return (a & mask) | (b & ~mask); }

// Expands four codes to binary16 without their scale: bytes 0 and 2 to `even`, bytes 1 and 3 to `odd`. The exponent and
// mantissa of e4m3 move up one bit within binary16. The exponent bias of binary16 is larger by 8, so the result is the
// value divided by 256.
template <KvType type>
MONOLITH_DEVICE void expand_codes(uint32_t codes, uint32_t& even, uint32_t& odd) {
  if constexpr (type == KvType::kFp8) {
    const uint32_t signs = codes & 0x80808080u;
    even = choose_bits(0x3f803f80u, codes << 7, signs << 8);
    odd = choose_bits(0x3f803f80u, codes >> 1, signs);
  } else {  // The code becomes the low bits of the binary16 value 1024 + code.
    even = add_halves((codes & 0x00ff00ffu) | 0x64006400u, 0xe480e480u);
    odd = add_halves(choose_bytes(codes, 0x64646464u, 0x4341), 0xe480e480u);
  }
}

// Returns one dequantized value, without rounding to binary16.
template <KvType type>
MONOLITH_DEVICE float code_value(unsigned char code, uint16_t scale) {
  if constexpr (type == KvType::kQ8_0) {
    return static_cast<float>(static_cast<int>(code) - 128) * half_to_float(scale);
  } else {
    const uint32_t half = (uint32_t{code} & 0x80u) << 8 | (uint32_t{code} & 0x7fu) << 7;
    return half_to_float(static_cast<uint16_t>(half)) * half_to_float(scale);
  }
}

// A block's stored scale, and the factor by which values are multiplied before they are rounded to codes.
struct BlockScale {
  uint16_t stored;
  float inverse;
};
template <KvType type>
MONOLITH_DEVICE BlockScale block_scale(float largest) {
  if constexpr (type == KvType::kQ8_0) {
    const float wanted = largest / 127.0f;
    const uint16_t stored = float_to_half(wanted < 65504.0f ? wanted : 65504.0f);
    const float as_read = half_to_float(stored);
    return {stored, as_read > 0 ? 1.0f / as_read : 0.0f};
  } else {
    const uint32_t bits = as_bits(largest);
    int exponent = static_cast<int>(bits >> 23) - 127 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
    exponent = exponent < -14 ? -14 : exponent > 15 ? 15 : exponent;
    return {static_cast<uint16_t>((exponent + 15) << 10), as_float(static_cast<uint32_t>(127 - exponent) << 23)};
  }
}
inline constexpr uint16_t kNanScale = 0x7e00;

// Converts a value to a code, rounding to nearest, ties to even. Values beyond the range saturate. NaN may become any
// code.
template <KvType type>
MONOLITH_DEVICE unsigned char code_of(float scaled) {
  if constexpr (type == KvType::kQ8_0) {
    const float least = scaled > -127.0f ? scaled : -127.0f;
    return static_cast<unsigned char>(static_cast<int>(rintf(least < 127.0f ? least : 127.0f)) + 128);
  } else {
    // Difference between the exponent biases of float32 and binary16, shifted left by three bits, the size of the e4m3
    // mantissa.
    constexpr uint32_t kBias = (127 - 15) << 3;
    const uint32_t bits = as_bits(scaled), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    uint32_t code;
    if (magnitude < 0x38800000u) {  // Subnormal codes below 2^-14 have a spacing of 2^-17.
      code = static_cast<uint32_t>(rintf(as_float(magnitude) * 131072.0f));
    } else {
      code = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
      code = code < kBias + 0x7eu ? code - kBias : 0x7eu;
    }
    return static_cast<unsigned char>(code | sign);
  }
}

// Destination for the codes and scales of one position and head: the addresses of its codes and of the scale of its
// first block. The scale of the next block is kPageTokens further.
struct CodeRow {
  unsigned char* codes;
  uint16_t* scales;
};
MONOLITH_DEVICE CodeRow code_row(unsigned char* head, int slot, int head_dim) {
  return {head + slot * head_dim, reinterpret_cast<uint16_t*>(head + kPageTokens * head_dim) + slot};
}

// Quantizes and stores the values of one position and head, using one warp.
template <KvType type>
MONOLITH_DEVICE void store_codes(const CodeRow& to, const float* x, int head_dim) {
  const int lane = lane_id(), block = kv_block(type, head_dim);
  for (int first = 0, at = 0; first < head_dim; first += block, ++at) {
    const int end = first + block < head_dim ? first + block : head_dim;
    float largest = 0;
    int poison = 0;
    for (int d = first + lane; d < end; d += kWarp) {
      const float magnitude = as_float(as_bits(x[d]) & 0x7fffffffu);
      if (!(magnitude < INFINITY))
        poison = 1;
      else
        largest = largest > magnitude ? largest : magnitude;
    }
    const bool poisoned = __any_sync(kWholeWarp, poison) != 0;
    const BlockScale scale = block_scale<type>(warp_max(largest));
    if (lane == 0) to.scales[at * kPageTokens] = poisoned ? kNanScale : scale.stored;
    for (int d = first + lane; d < end; d += kWarp) to.codes[d] = code_of<type>(x[d] * scale.inverse);
  }
}

// Returns dimension d of one position, given the page's data for one head. Supports all KV cache types.
template <KvType type>
MONOLITH_DEVICE float kept_value(const unsigned char* head, int slot, int d, int head_dim) {
  const int at = slot * head_dim + d;
  if constexpr (type == KvType::kF32) {
    return reinterpret_cast<const float*>(head)[at];
  } else if constexpr (type == KvType::kF16) {
    return half_to_float(reinterpret_cast<const uint16_t*>(head)[at]);
  } else {
    const auto* const scales = reinterpret_cast<const uint16_t*>(head + kPageTokens * head_dim);
    return code_value<type>(head[at], scales[d / kv_block(type, head_dim) * kPageTokens + slot]);
  }
}

}  // namespace monolith::cuda
