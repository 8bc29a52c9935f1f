// Vocabularies as tiktoken keeps them, lines of a token's bytes in base64 and its rank: what Kimi folders without a
// tokenizer.json have. Used on the thread that opens the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace monolith::hf {

struct RankedTokens {
  std::vector<std::string> texts;  // by rank, in GPT-2's alphabet
  // "left right": of each token of several bytes the two it is made of, where merging what ranks before it leaves two.
  std::vector<std::string> merges;
};

// `name`: of the file, for messages. Errors: kInvalidFile for lines that are none, and ranks that do not follow one another.
Result<RankedTokens> read_ranked_tokens(std::string_view text, const std::string& name);

}  // namespace monolith::hf
