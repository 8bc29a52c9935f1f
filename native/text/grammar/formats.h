// Regular expressions for those values of JSON Schema's `format` keyword that are enforced. An expression is matched
// against the characters of a string.
#pragma once

#include <string_view>

namespace monolith::grammar {

// Returns a valid Regex for the whole string, or null if the format is only an annotation.
const char* format_pattern(std::string_view name);

}  // namespace monolith::grammar
