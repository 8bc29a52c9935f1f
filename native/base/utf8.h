// Decodes and encodes UTF-8. The functions have no side effects and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace monolith {

// Returned for a byte that is not part of valid UTF-8.
inline constexpr uint32_t kInvalidByte = 0xFFFFFFFF;

struct Utf8Char {
  uint32_t code_point;  // A code point, or kInvalidByte.
  uint32_t size;        // Bytes consumed: 1 to 4; 1 for an invalid byte.
};

// Decodes the first character of `text`, which must not be empty. Overlong forms, surrogates and code points above
// U+10FFFF are invalid (RFC 3629).
Utf8Char decode_utf8(std::string_view text);

// Appends `code_point` (at most U+10FFFF, not a surrogate).
void append_utf8(uint32_t code_point, std::string& out);

}  // namespace monolith
