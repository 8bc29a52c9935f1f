// The 8-bit floating-point encoding E4M3 (OCP 8-bit Floating Point Specification 1.0): a sign, four bits of exponent
// biased by 7, three of mantissa; no infinity, and the largest magnitude of bits is the only NaN. In portable bit
// arithmetic; kernels that convert otherwise must give these bits.
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"

namespace monolith {

inline constexpr float kE4m3Most = 448.0f;

// Exact. Both NaNs become one.
constexpr float e4m3_to_float(uint8_t code) {
  if ((code & 0x7fu) == 0x7fu) return std::bit_cast<float>(0x7fc00000u);
  // Moved to where binary16 has them, the bits are the number times 2^-8, subnormals included.
  return 256.0f * half_to_float(static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << 7));
}

// To nearest, ties to even; beyond the largest, the largest. NaN stays NaN.
constexpr uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // from 448 on
  if (magnitude >= 0x3c800000u) {  // from 2^-6 on: normal; what rounds past 416 becomes 448
    const uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
    return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
  }
  // Subnormal, steps of 2^-9: added to 2^14, where a binary32 has such steps, and rounded as sums are.
  const float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
  return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0xfu));
}

}  // namespace monolith
