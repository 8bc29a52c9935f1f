// The byte strings of a vocabulary as a tree in depth-first order, so that a walk is one pass over arrays and
// a refused prefix skips all that begin with it. Two trees: tokens that are ordinary characters within a JSON
// string, and the others. Immutable after build; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::grammar {

// One bit per token id.
class TokenMask {
 public:
  explicit TokenMask(size_t n_tokens = 0) : words_((n_tokens + 63) / 64) {}
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  void set(uint32_t token) { words_[token >> 6] |= uint64_t{1} << (token & 63); }
  void reset(uint32_t token) { words_[token >> 6] &= ~(uint64_t{1} << (token & 63)); }
  bool has(uint32_t token) const { return words_[token >> 6] >> (token & 63) & 1; }
  void copy(const TokenMask& other) { words_ = other.words_; }
  void add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  std::span<const uint64_t> words() const { return words_; }
  size_t count() const;
  bool any() const {
    return std::ranges::any_of(words_, [](uint64_t word) { return word != 0; });
  }

 private:
  std::vector<uint64_t> words_;
};

struct TokenTree {
  struct Node {
    uint32_t end;          // index behind its subtree
    uint32_t first_token;  // of its subtree, into `tokens`; its own come first
    uint16_t n_own;        // tokens that end here
    uint8_t byte;
    uint8_t depth;   // from 1; the tree holds no string longer than 255 bytes
    uint8_t height;  // bytes of the longest string below it
  };
  std::vector<Node> nodes;       // depth first; the root is not among them
  std::vector<uint32_t> tokens;  // in the order of nodes
  uint32_t tokens_behind(uint32_t node) const {
    return node < nodes.size() ? nodes[node].first_token : static_cast<uint32_t>(tokens.size());
  }
};

class TokenTrie {
 public:
  static constexpr size_t kLongest = 255;

  // `bytes[id]`: what the token is in text; empty for tokens that are never allowed by a grammar (control tokens).
  explicit TokenTrie(std::span<const std::string> bytes);

  size_t n_tokens() const { return n_tokens_; }
  const TokenTree& plain() const { return plain_; }  // whole characters from U+0020 on, neither " nor backslash
  const TokenTree& other() const { return other_; }
  const TokenMask& plain_mask() const { return plain_mask_; }
  size_t longest_plain() const { return longest_plain_; }  // characters

 private:
  size_t n_tokens_;
  TokenTree plain_, other_;
  TokenMask plain_mask_;
  size_t longest_plain_ = 0;
};

}  // namespace monolith::grammar
