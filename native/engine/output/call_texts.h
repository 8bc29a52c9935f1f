// Turns the texts of tool calls into the token sequences that the engine looks for.
#pragma once

#include <string>
#include <vector>

#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// How calls are written, as text. CallParams describes the fields.
struct CallTexts {
  std::string open, close;
  std::vector<std::string> prefixes, next;
  std::string answer, end;
  std::vector<GrammarRef> grammars;
  bool at_start = false, ends_itself = false;
  bool required = false;  // The content must begin with a call.
};

CallParams tokenize_calls(CallTexts texts, const Tokenizer& tokenizer);

// Bans the markers that are tokens. The close marker is banned too: a model that cannot open a call may still write the
// rest of one.
void forbid_calls(const CallTexts& texts, const Tokenizer& tokenizer, SamplingParams& sampling);

}  // namespace monolith
