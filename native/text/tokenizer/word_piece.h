// WordPiece tokenizer (tokenizer.ggml.model "bert"). The text is normalized and split into words. Each word is split
// into tokens from left to right, always taking the longest token that matches. If no token matches somewhere in a
// word, the whole word becomes one unknown token.
//
// In GGUF files, tokens that start a word begin with "▁". Tokens that continue a word have no prefix ("##" is removed).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith {

class WordPiece final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> build(const TokenizerSpec& spec);

 private:
  struct Options {
    bool lowercase = true;
    bool strip_accents = true;
    bool splits_chinese = true;  // Every Chinese character is a separate word.
    bool cleans = true;          // Control characters are removed.
    size_t max_word_chars = 0;   // Longer words become the unknown token; 0: no limit.
  };

  WordPiece(std::unique_ptr<const Vocabulary> vocabulary, const Options& options);
  static std::vector<PieceTrie::Entry> entries_of(const Vocabulary& vocabulary);
  std::string_view prepare(std::string_view text, bool opens, std::string& scratch) const override;
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;
  void encode_word(std::string_view word, size_t n_chars, std::vector<TokenId>& out) const;

  Options options_;
  PieceTrie pieces_;  // All normal tokens, with "▁" replaced by a space.
};

}  // namespace monolith
