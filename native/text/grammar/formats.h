// The values of JSON Schema's `format` that are held to, as regular expressions over the string's characters.
#pragma once

#include <string_view>

namespace monolith::grammar {

// Null for a format that is an annotation only. The text is a valid Regex for whole strings.
const char* format_pattern(std::string_view name);

}  // namespace monolith::grammar
