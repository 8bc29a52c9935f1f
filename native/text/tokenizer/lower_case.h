// Converts single characters to lower case. The functions have no side effects and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace monolith {

// Appends the lower-case form of a code point to `out`. Appends `bytes`, the UTF-8 bytes of the code point itself, if
// it has no lower-case form or if that form consists of several characters.
void append_lower_case(uint32_t code_point, std::string_view bytes, std::string& out);

}  // namespace monolith
