// Finds special tokens written in text. Immutable once built: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace monolith {

struct SpecialMatch {
  size_t begin, end;  // bytes of the text
  TokenId id;
};

// A trie walked from every byte that begins a special token. Time is linear in the text, except for the length of the
// walks, which kMaxTokenBytes bounds. Matches never overlap.
class SpecialMatcher {
 public:
  // Which of overlapping matches is chosen.
  enum class Order : uint8_t {
    kLongest,   // longer spellings first wherever they stand, then from left to right: llama.cpp
    kLeftmost,  // from left to right, the longest at each place: Hugging Face's tokenizers
  };
  struct Entry {
    std::string spelling;  // empty ones never match; the first of equal ones counts
    TokenId id;
  };
  SpecialMatcher(std::vector<Entry> entries, Order order);

  // Replaces `out` by the chosen matches, in the order of the text. A chosen spelling that has one
  // of `guards` (ascending positions) inside is left out, but keeps its place: nothing else matches
  // there.
  void find(std::string_view text, std::span<const size_t> guards, std::vector<SpecialMatch>& out) const;
  bool empty() const { return edges_.empty(); }

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

  uint32_t child(uint32_t node, unsigned char byte) const;  // 0 if there is none
  // The longest token at the front of `text` that is shorter than `below`.
  SpecialMatch longest_at(std::string_view text, size_t begin, size_t below) const;
  void choose(std::string_view text, std::vector<SpecialMatch>& candidates) const;

  Order order_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // of one node: neighbours, ascending
  uint32_t root_child_[256] = {};
};

}  // namespace monolith
