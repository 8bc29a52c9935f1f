// Classes of ASCII characters, independent of the locale.
#pragma once

#include <cstdint>

namespace monolith {

constexpr bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
constexpr bool is_upper(uint32_t c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(uint32_t c) { return c >= 'a' && c <= 'z'; }

// Value of a hexadecimal digit, or -1.
constexpr int hex_digit(uint32_t c) {
  if (is_digit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

}  // namespace monolith
