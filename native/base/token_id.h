// The ID and the kind of a token in a vocabulary.
#pragma once

#include <cstdint>

namespace monolith {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

// Values of GGUF tokenizer.ggml.token_type.
enum class TokenKind : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

}  // namespace monolith
