// Marks that take space or enclose other characters.
#pragma once

#include <cstdint>

namespace monolith {

// Matches [\p{Mc}\p{Me}]: the marks that are not nonspacing marks, \p{Mn}.
bool is_spacing_mark(uint32_t code_point);

}  // namespace monolith
