// Prefix tree of a vocabulary's byte strings, stored in depth-first order. A walk is one pass over arrays, and a
// rejected prefix skips its whole subtree. There are two trees: tokens of ordinary characters within a JSON string, and
// all other tokens. The tree is immutable after construction and may be read from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::grammar {

// Bit mask over token ids.
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
    uint32_t end;          // Index of the first node after the subtree.
    uint32_t first_token;  // First token of the subtree, as an index into `tokens`. The node's own tokens come first.
    uint16_t n_own;        // Number of tokens that end at this node.
    uint8_t byte;
    uint8_t depth;   // Depth from 1. No string in the tree is longer than 255 bytes.
    uint8_t height;  // Bytes of the longest string below this node.
  };
  std::vector<Node> nodes;       // Nodes in depth-first order, without the root.
  std::vector<uint32_t> tokens;  // Token ids in the order of the nodes.
  uint32_t tokens_behind(uint32_t node) const {
    return node < nodes.size() ? nodes[node].first_token : static_cast<uint32_t>(tokens.size());
  }
};

class TokenTrie {
 public:
  static constexpr size_t kLongest = 255;

  // `bytes[id]` is the text of the token. It is empty for tokens that no grammar ever allows (control tokens).
  explicit TokenTrie(std::span<const std::string> bytes);

  size_t n_tokens() const { return n_tokens_; }
  // Tokens that consist of whole characters from U+0020 upwards, excluding the double quote and the backslash.
  const TokenTree& plain() const { return plain_; }
  const TokenTree& other() const { return other_; }
  const TokenMask& plain_mask() const { return plain_mask_; }
  size_t longest_plain() const { return longest_plain_; }  // Length of the longest plain token, in characters.

 private:
  size_t n_tokens_;
  TokenTree plain_, other_;
  TokenMask plain_mask_;
  size_t longest_plain_ = 0;
};

}  // namespace monolith::grammar
