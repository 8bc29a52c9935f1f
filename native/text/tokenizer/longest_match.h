// RWKV's tokenizer (tokenizer.ggml.model "rwkv"): the text is split into tokens from left to right, always taking the
// longest token that matches. Tokens are byte strings, which files spell with backslash escapes.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith {

class LongestMatch final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> build(const TokenizerSpec& spec);

 private:
  explicit LongestMatch(std::unique_ptr<const Vocabulary> vocabulary);
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;

  PieceTrie pieces_;  // The bytes of all tokens that ordinary text may produce.
};

}  // namespace monolith
