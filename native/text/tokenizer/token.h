// A token of a vocabulary, by its number. Any thread.
#pragma once

#include <cstdint>

namespace monolith {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

}  // namespace monolith
