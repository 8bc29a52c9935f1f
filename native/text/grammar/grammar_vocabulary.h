// A tokenizer's tokens in the form that grammars use. An ordinary token is represented by its bytes. A special token (a
// control token, or a user-defined token that looks like a marker) is represented by a four-byte symbol whose first
// byte never occurs in text. A grammar therefore allows a special token only if the grammar names it; ordinary text
// with the same spelling does not match. Immutable; may be used from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith::grammar {

class GrammarVocabulary {
 public:
  // Uses the tokens with IDs below `n_tokens`.
  GrammarVocabulary(const Tokenizer& tokenizer, int n_tokens);
  // Builds a vocabulary from token bytes, without special tokens.
  explicit GrammarVocabulary(const std::vector<std::string>& bytes);

  const TokenTrie& trie() const { return trie_; }
  // Returns the token's bytes; empty for a token that no grammar allows.
  std::string_view bytes(TokenId token) const {
    const auto at = static_cast<size_t>(token);
    return std::string_view(bytes_).substr(starts_[at], starts_[at + 1] - starts_[at]);
  }
  // Replaces the spellings of special tokens in `text` with their symbols, longest spelling first.
  std::string symbols(std::string_view text) const;
  static constexpr size_t kSymbolBytes = 4;
  static bool begins_symbol(int byte) { return byte == 0xFF; }
  // Returns the token for a symbol, or kNoToken if `text` is not the symbol of a token.
  TokenId of_symbol(std::string_view text) const;
  // Tokens that consist only of whitespace.
  const TokenMask& spaces() const { return spaces_; }

 private:
  static std::vector<std::string> bytes_of(const Tokenizer& tokenizer, int n_tokens);

  std::string bytes_;
  std::vector<uint32_t> starts_;
  // Sorted by spelling in descending order, so that a longer spelling comes before its own prefixes.
  std::vector<std::pair<std::string, TokenId>> special_;
  TokenTrie trie_;
  TokenMask spaces_;
};

}  // namespace monolith::grammar
