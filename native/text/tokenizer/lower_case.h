// Lower-case forms of single characters. The table is constant; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace monolith {

// Appends the lower-case form of a code point. `bytes`: its own bytes, which are appended if it has no such form or if
// the form consists of several characters.
void append_lower_case(uint32_t code_point, std::string_view bytes, std::string& out);

}  // namespace monolith
