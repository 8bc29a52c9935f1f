// The 8-bit floating-point format E4M3 (OCP 8-bit Floating Point Specification 1.0): a sign bit, 4 exponent bits with
// bias 7, and 3 mantissa bits. It has no infinity; the only NaN has all exponent and mantissa bits set. This file uses
// portable bit arithmetic. Kernels that convert with other methods must produce the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"

namespace monolith {

inline constexpr float kE4m3Most = 448.0f;

// The conversion is exact. Both E4M3 encodings of NaN become the same NaN.
constexpr float e4m3_to_float(uint8_t code) {
  if ((code & 0x7fu) == 0x7fu) return std::bit_cast<float>(0x7fc00000u);
  // After the bits have been shifted to their positions in binary16, they represent the number times 2^-8. This also
  // holds for subnormal numbers.
  return 256.0f * half_to_float(static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << 7));
}

// Rounds to nearest, ties to even. Values beyond the largest finite number saturate to it. NaN stays NaN.
constexpr uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448 or more.
  if (magnitude >= 0x3c800000u) {  // Normal numbers: at least 2^-6. Values above 416 that round up become 448.
    const uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
    return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
  }
  // Subnormal numbers are multiples of 2^-9. Adding 2^14, where binary32 has the same spacing, rounds correctly.
  const float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
  return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0xfu));
}

}  // namespace monolith
