// Finds the spellings of special tokens in text. Immutable after construction; may be used from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace monolith {

struct SpecialMatch {
  size_t begin, end;  // Byte offsets in the text.
  TokenId id;
};

// A trie that is walked from every byte at which a special token can start. The time is linear in the length of the
// text times the length of a walk, which is limited by kMaxTokenBytes. Matches never overlap.
class SpecialMatcher {
 public:
  // Determines which match is chosen if several overlap.
  enum class Order : uint8_t {
    kLongest,   // The longest spelling anywhere in the text first, then from left to right, as in llama.cpp.
    kLeftmost,  // From left to right, the longest at each position, as in Hugging Face tokenizers.
  };
  struct Entry {
    std::string spelling;  // An empty spelling never matches. Among equal spellings, the first entry is used.
    TokenId id;
  };
  SpecialMatcher(std::vector<Entry> entries, Order order);

  // Replaces `out` with the chosen matches, in text order. `guards` contains ascending positions. A chosen match with a
  // guard inside it is omitted but still blocks its range, so no other token matches there.
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

  uint32_t child(uint32_t node, unsigned char byte) const;  // Returns 0 if there is no child.
  // Returns the longest token at `begin` that is shorter than `below` bytes.
  SpecialMatch longest_at(std::string_view text, size_t begin, size_t below) const;
  void choose(std::string_view text, std::vector<SpecialMatch>& candidates) const;

  Order order_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // The edges of a node are contiguous and ascending.
  uint32_t root_child_[256] = {};
};

}  // namespace monolith
