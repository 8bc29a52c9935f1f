// Unicode's spacing marks (Mc) and enclosing marks (Me).
#pragma once

#include <cstdint>

namespace monolith {

// Returns true if the code point matches [\p{Mc}\p{Me}], that is, all marks except nonspacing marks (\p{Mn}).
bool is_spacing_mark(uint32_t code_point);

}  // namespace monolith
