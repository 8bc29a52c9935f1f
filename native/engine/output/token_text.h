// The text of tokens. Safe to call from any thread.
#pragma once

#include <string_view>

#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Returns the token's text. Control tokens, placeholders and the unknown token have none.
inline std::string_view rendered(const Tokenizer& tokenizer, TokenId token) {
  switch (tokenizer.kind(token)) {
    case TokenKind::kNormal:
    case TokenKind::kUserDefined:
    case TokenKind::kByte: return tokenizer.bytes(token);
    default: return {};
  }
}

}  // namespace monolith
