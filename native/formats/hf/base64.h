// Base64 decoding (RFC 4648). Pure function.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace monolith::hf {

// Returns false if `text` is not valid base64: it has characters outside the alphabet, an impossible length, or padding
// that is not at the end.
bool decode_base64(std::string_view text, std::vector<std::byte>& out);

}  // namespace monolith::hf
