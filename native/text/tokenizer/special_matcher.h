// Finds special tokens written in text. Immutable once built: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace monolith {

struct SpecialMatch {
  size_t begin, end;   // bytes of the text
  TokenId id;
};

// Chooses as llama.cpp does: longer spellings first wherever they stand, then from left to right,
// no overlap. A trie walked from every byte that begins a special token: time linear in the text,
// but for the length of the walks, which kMaxTokenBytes bounds.
class SpecialMatcher {
 public:
  // Of the tokens of `vocabulary`, those whose kind `kinds` lists.
  SpecialMatcher(const Vocabulary& vocabulary, std::span<const TokenKind> kinds);

  // Replaces `out` by the chosen matches, in the order of the text. A chosen spelling that has one
  // of `guards` (ascending positions) inside is left out, but keeps its place: nothing else matches
  // there.
  void find(std::string_view text, std::span<const size_t> guards,
            std::vector<SpecialMatch>& out) const;

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint16_t n_edges = 0;
    TokenId id = kNoToken;
  };
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };

  uint32_t child(uint32_t node, unsigned char byte) const;   // 0 if there is none
  // The longest token at the front of `text` that is shorter than `below`.
  SpecialMatch longest_at(std::string_view text, size_t begin, size_t below) const;
  void choose(std::string_view text, std::vector<SpecialMatch>& candidates) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;       // of one node: neighbours, ascending
  uint32_t root_child_[256] = {};
};

}  // namespace monolith
