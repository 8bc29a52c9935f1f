// A tokenizer's tokens as grammars see them. Ordinary tokens are their bytes. Special ones (control tokens, and
// user-defined ones that look like markers) are symbols of four bytes, the first of which no text has: only a
// grammar that names one allows it, and none takes its spelling for it. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith::grammar {

class GrammarVocabulary {
 public:
  // Of the tokens below `n_tokens`.
  GrammarVocabulary(const Tokenizer& tokenizer, int n_tokens);
  // Tokens by their bytes, none of them special.
  explicit GrammarVocabulary(const std::vector<std::string>& bytes);

  const TokenTrie& trie() const { return trie_; }
  // Empty for a token that no grammar allows.
  std::string_view bytes(TokenId token) const {
    const auto at = static_cast<size_t>(token);
    return std::string_view(bytes_).substr(starts_[at], starts_[at + 1] - starts_[at]);
  }
  // Text with the spellings of special tokens, the longest first, as their symbols.
  std::string symbols(std::string_view text) const;
  static constexpr size_t kSymbolBytes = 4;
  static bool begins_symbol(int byte) { return byte == 0xFF; }
  // The token of a symbol; kNoToken if `text` is none.
  TokenId of_symbol(std::string_view text) const;
  // Tokens of white space only.
  const TokenMask& spaces() const { return spaces_; }

 private:
  static std::vector<std::string> bytes_of(const Tokenizer& tokenizer, int n_tokens);

  std::string bytes_;
  std::vector<uint32_t> starts_;
  std::vector<std::pair<std::string, TokenId>> special_;  // by spelling, descending: a longer one before its beginning
  TokenTrie trie_;
  TokenMask spaces_;
};

}  // namespace monolith::grammar
