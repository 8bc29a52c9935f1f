// Conversions to and from the two 16-bit floating-point formats, in portable bit arithmetic. Kernels convert with
// hardware instructions and must produce the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace monolith {

// Converts IEEE 754 binary16 to binary32. The conversion is exact. NaN becomes a quiet NaN, as with the hardware
// instruction.
constexpr float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Subnormal: shift the leading 1 up to bit 10, the position of a normal number's implicit 1.
  const int shift = std::countl_zero(mantissa) - 21;
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | static_cast<uint32_t>(113 - shift) << 23 | mantissa << 13);
}

// Converts binary32 to binary16, rounding to nearest with ties to even. Values that are too large become infinity. NaN
// becomes a quiet NaN.
constexpr uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // Rounds to more than 65504.
  if (magnitude >= 0x38800000u) {                                              // Normal: at least 2^-14.
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude <= 0x33000000u) return static_cast<uint16_t>(sign);  // At most 2^-25, so it rounds to zero.
  // Subnormal: computed in units of 2^-24.
  const uint32_t shift = 126 - (magnitude >> 23);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t whole = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1), tie = 1u << (shift - 1);
  const bool up = rest > tie || (rest == tie && (whole & 1u));
  return static_cast<uint16_t>(sign | (whole + up));
}

// Converts bfloat16 to binary32. The conversion is exact.
constexpr float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Converts binary32 to bfloat16, rounding to nearest with ties to even. NaN becomes a quiet NaN.
constexpr uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace monolith
