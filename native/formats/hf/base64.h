// Base64 (RFC 4648). Pure function.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace monolith::hf {

// False if `text` is none: a character outside the alphabet, a length that cannot be, padding elsewhere than at the end.
bool decode_base64(std::string_view text, std::vector<std::byte>& out);

}  // namespace monolith::hf
