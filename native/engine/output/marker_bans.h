// Bans the marker tokens of reasoning and tool calls wherever they make no sense, depending on the current section.
// Poorly trained models emit them anywhere, and they would appear in the output. Markers that are not a single token,
// and tokens that end the turn, are not banned. Markers of tool results are banned everywhere. Any thread.
#pragma once

#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Makes the bans for a request whose sampling, reasoning and calls are already set.
MarkerBans make_marker_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

// Like make_marker_bans(), but also bans all tokens that end the generation. Used until min_tokens is reached. The
// request's marker_bans must already be set.
MarkerBans make_early_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

// Whether this token may change the section, so that a different list of bans applies after it.
inline bool is_marker(const GenerationRequest& request, TokenId token) {
  return token == request.reasoning.open.token || token == request.reasoning.close.token ||
         token == request.calls.open.token || token == request.calls.close.token;
}

}  // namespace monolith
