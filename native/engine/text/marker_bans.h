// Where the markers of reasoning and of tool calls may not be sampled: outside of what they open and close. A model that has
// learned them badly writes them anywhere, and they would stand in the answer. Markers that are no single token cannot be
// kept out so, and tokens that end the turn are not. Those of a tool's result have no place in an answer at all. Any thread.
#pragma once

#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// For a request whose sampling, reasoning and calls are set.
MarkerBans make_marker_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

// The same, with all that ends the generation: for a request whose marker_bans are set, until it has min_tokens.
MarkerBans make_early_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

// Whether what comes behind this token may be in another list than what comes before it.
inline bool is_marker(const GenerationRequest& request, TokenId token) {
  return token == request.reasoning.open.token || token == request.reasoning.close.token ||
         token == request.calls.open.token || token == request.calls.close.token;
}

}  // namespace monolith
