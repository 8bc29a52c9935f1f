// 8-bit keys and values, as kv_cache.h describes them: how numbers become codes and scales, and how these become
// numbers again, one by one and four at a time. Device code.
#pragma once

#include "backend/cuda/device/tensor.h"
#include "backend/cuda/attention/kv_cache.h"

namespace monolith::cuda {

constexpr bool is_8bit(KvType type) { return type == KvType::kQ8_0 || type == KvType::kFp8; }

// The bits of `a` where `mask` has ones, of `b` elsewhere.
MONOLITH_DEVICE uint32_t choose_bits(uint32_t mask, uint32_t a, uint32_t b) { return (a & mask) | (b & ~mask); }

// Four codes as numbers, binary16, before their scale: bytes 0 and 2, bytes 1 and 3. What e4m3 has as its exponent and
// fraction stands one bit lower in binary16, whose exponent counts from 8 lower: value / 256.
template <KvType type>
MONOLITH_DEVICE void expand_codes(uint32_t codes, uint32_t& even, uint32_t& odd) {
  if constexpr (type == KvType::kFp8) {
    const uint32_t signs = codes & 0x80808080u;
    even = choose_bits(0x3f803f80u, codes << 7, signs << 8);
    odd = choose_bits(0x3f803f80u, codes >> 1, signs);
  } else {  // the low bits of 1024 + code
    even = add_halves((codes & 0x00ff00ffu) | 0x64006400u, 0xe480e480u);
    odd = add_halves(choose_bytes(codes, 0x64646464u, 0x4341), 0xe480e480u);
  }
}

// A number that is read alone, not rounded.
template <KvType type>
MONOLITH_DEVICE float code_value(unsigned char code, uint16_t scale) {
  if constexpr (type == KvType::kQ8_0) {
    return static_cast<float>(static_cast<int>(code) - 128) * half_to_float(scale);
  } else {
    const uint32_t half = (uint32_t{code} & 0x80u) << 8 | (uint32_t{code} & 0x7fu) << 7;
    return half_to_float(static_cast<uint16_t>(half)) * half_to_float(scale);
  }
}

// A block's scale, and what its numbers are multiplied by before they are rounded to codes.
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

// To nearest, ties to even; what is too large for the code becomes its largest. NaN may become any code.
template <KvType type>
MONOLITH_DEVICE unsigned char code_of(float scaled) {
  if constexpr (type == KvType::kQ8_0) {
    const float least = scaled > -127.0f ? scaled : -127.0f;
    return static_cast<unsigned char>(static_cast<int>(rintf(least < 127.0f ? least : 127.0f)) + 128);
  } else {
    constexpr uint32_t kBias = (127 - 15) << 3;  // between exponents of binary32 and binary16, above three bits
    const uint32_t bits = as_bits(scaled), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    uint32_t code;
    if (magnitude < 0x38800000u) {  // below 2^-14: steps of 2^-17
      code = static_cast<uint32_t>(rintf(as_float(magnitude) * 131072.0f));
    } else {
      code = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
      code = code < kBias + 0x7eu ? code - kBias : 0x7eu;
    }
    return static_cast<unsigned char>(code | sign);
  }
}

// Where one position and head goes: its codes, and the scale of its first block; the next is kPageTokens further.
struct CodeRow {
  unsigned char* codes;
  uint16_t* scales;
};
MONOLITH_DEVICE CodeRow code_row(unsigned char* head, int slot, int head_dim) {
  return {head + slot * head_dim, reinterpret_cast<uint16_t*>(head + kPageTokens * head_dim) + slot};
}

// One position and head, by one warp.
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

// Dimension d of a position, among what a page holds of a head, in any type of pages.
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
