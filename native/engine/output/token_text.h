// The text of tokens, and end-of-generation tokens. Any thread.
#pragma once

#include <algorithm>
#include <string_view>

#include "engine/request.h"
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

// Whether this token ends the turn.
inline bool ends_generation(const Tokenizer& tokenizer, const GenerationRequest& params, TokenId token) {
  const std::vector<TokenId>& stops = params.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return true;
  return !params.ignore_eos && tokenizer.is_end_of_generation(token);
}

}  // namespace monolith
