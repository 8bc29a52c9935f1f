// The values of JSON Schema's `format` keyword that are enforced, as regular expressions over the characters of the
// string.
#pragma once

#include <string_view>

namespace monolith::grammar {

// Returns null for a format that is only an annotation. The returned text is a valid Regex for the whole string.
const char* format_pattern(std::string_view name);

}  // namespace monolith::grammar
