// Turns the literal strings of tool calls into the token sequences that the engine looks for.
#pragma once

#include <string>
#include <vector>

#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// The notation of tool calls, as text. The fields have the same meaning as in CallParams.
struct CallTexts {
  std::string open, close;
  std::vector<std::string> prefixes, next;
  std::string answer, end;
  std::vector<GrammarRef> grammars;
  bool at_start = false, ends_itself = false;
  bool required = false;  // The content must begin with a call.
};

CallParams tokenize_calls(CallTexts texts, const Tokenizer& tokenizer);

// Bans the call markers that are single tokens. The close marker is banned too: a model that cannot open a call may
// still generate the rest of one.
void forbid_calls(const CallTexts& texts, const Tokenizer& tokenizer, SamplingParams& sampling);

}  // namespace monolith
