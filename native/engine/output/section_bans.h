// If the request enables it, bans the marker tokens of reasoning and tool calls in the sections where they make no
// sense. Poorly trained models emit them anywhere, and they would appear in the output. Markers that are not a single
// token, and tokens that end the turn, are not banned. Markers of tool results are banned everywhere. Until min_tokens
// is reached, also bans the tokens that end the generation. Safe to call from any thread.
#pragma once

#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Builds the token bans for a request whose other fields are already set.
OutputBans make_bans(const GenerationRequest& request, const Tokenizer& tokenizer);

}  // namespace monolith
