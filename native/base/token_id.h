// The ID of a token in a vocabulary.
#pragma once

#include <cstdint>

namespace monolith {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

}  // namespace monolith
