// Prompt lookup decoding (Saxena 2023): finds the last earlier occurrence of a text's newest tokens and proposes the
// tokens that followed there. Outputs often repeat parts of the prompt and of themselves. One per sequence; engine
// thread only. Adding a token and looking up take constant time; memory is allocated only once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace monolith {

class PromptLookup {
 public:
  static constexpr int kGram = 3;  // Minimum length of a match, in tokens.
  // Maximum length of a match, in tokens. Longer matches are not distinguished.
  static constexpr int kLongestMatch = 16;

  // For texts of up to `max_tokens` tokens. In texts of more than kMaxSlots tokens, n-grams share hash slots, so older
  // occurrences are overwritten.
  explicit PromptLookup(int max_tokens);

  struct Match {
    int length = 0;  // Number of equal tokens before `next`: kGram to kLongestMatch, or 0 if there is no match.
    int next = 0;    // Index of the token that followed the match.
  };
  // `tokens`: the tokens passed in the previous call, followed by any number of new tokens. Takes time proportional to
  // the number of new tokens.
  Match find(std::span<const TokenId> tokens);
  // Copies the tokens that followed the match to `out`. If the text ends before `out` is full, the copied tokens are
  // repeated.
  static void copy(std::span<const TokenId> tokens, const Match& match, std::span<TokenId> out);

 private:
  static constexpr size_t kMaxSlots = 1 << 15;

  size_t slot(const TokenId* end) const;  // Hash slot of the kGram tokens before `end`.

  std::vector<int32_t> next_;  // Per hash slot: index after the newest occurrence of the n-gram; 0 = none.
  size_t n_read_ = 0;          // The hash table covers positions [0, n_read_).
};

}  // namespace monolith
