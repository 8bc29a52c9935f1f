// Finds where a text has been before: the last place at which its newest tokens stood already, and what followed
// there. One per sequence, engine thread only. Reading a token and looking up are of constant cost; the memory is
// taken once. After "prompt lookup decoding" (Saxena 2023): answers repeat their prompt and themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace monolith {

class PromptLookup {
 public:
  static constexpr int kGram = 3;           // tokens that must be alike
  static constexpr int kLongestMatch = 16;  // further back is not looked

  // For texts of up to `max_tokens`. Beyond kMostSlots places the oldest are forgotten first, by chance.
  explicit PromptLookup(int max_tokens);

  struct Match {
    int length = 0;  // tokens alike before it, from kGram to kLongestMatch; 0: none
    int next = 0;    // index of what followed
  };
  // `tokens` are those of the last call and any number of new ones. O(new tokens).
  Match find(std::span<const TokenId> tokens);
  // What follows by that match into `out`: as far as the text goes, and then again as if it went on like this.
  static void copy(std::span<const TokenId> tokens, const Match& match, std::span<TokenId> out);

 private:
  static constexpr size_t kMostSlots = 1 << 15;

  size_t slot(const TokenId* end) const;  // of the kGram tokens before `end`

  std::vector<int32_t> next_;  // by slot: index behind such tokens, the newest; 0: none
  size_t n_read_ = 0;          // places [0, n_read_) are in slots
};

}  // namespace monolith
