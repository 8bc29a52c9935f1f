// Reads a vocabulary in tiktoken format: lines with a token's bytes in base64 and its rank. Kimi folders without a
// tokenizer.json use this format. Used on the thread that opens the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace monolith::hf {

struct RankedTokens {
  std::vector<std::string> texts;  // Token texts by rank, in GPT-2's byte alphabet.
  // BPE merges, as "left right". A token of several bytes has a merge if applying all merges of lower rank to its bytes
  // leaves exactly two tokens.
  std::vector<std::string> merges;
};

// `name` is the file's name for error messages. kInvalidFile: a malformed line, or ranks that are not consecutive.
Result<RankedTokens> read_ranked_tokens(std::string_view text, const std::string& name);

}  // namespace monolith::hf
