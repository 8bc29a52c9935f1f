// Bans the marker tokens of reasoning and tool calls where they make no sense, depending on the current section. Poorly
// trained models emit them anywhere, and they would appear in the output. Not banned: markers that are not a single
// token, and tokens that end the turn. Markers of tool results are banned everywhere. Any thread.
#pragma once

#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// For a request whose sampling, reasoning and calls are already set.
MarkerBans make_marker_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

// Also bans all tokens that end the generation; used until min_tokens is reached. The request's marker_bans must be
// set.
MarkerBans make_early_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

// True if this token may change the section, so that another ban list applies after it.
inline bool is_marker(const GenerationRequest& request, TokenId token) {
  return token == request.reasoning.open.token || token == request.reasoning.close.token ||
         token == request.calls.open.token || token == request.calls.close.token;
}

}  // namespace monolith
