// Prefix tree of a vocabulary's byte strings, stored in depth-first order. A walk is one pass over arrays, and
// rejecting a prefix skips its whole subtree. There are two trees: one for tokens that consist of ordinary characters
// of a JSON string, and one for all other tokens. Immutable after construction; may be used from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::grammar {

// Bit mask over token IDs.
class TokenMask {
 public:
  explicit TokenMask(size_t n_tokens = 0) : words_((n_tokens + 63) / 64) {}
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  void set(uint32_t token) { words_[token >> 6] |= uint64_t{1} << (token & 63); }
  void reset(uint32_t token) { words_[token >> 6] &= ~(uint64_t{1} << (token & 63)); }
  void set(std::span<const uint32_t> tokens) {
    for (const uint32_t token : tokens) set(token);
  }
  void reset(std::span<const uint32_t> tokens) {
    for (const uint32_t token : tokens) reset(token);
  }
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
    uint32_t first_token;  // Index into `tokens` of the subtree's first token. The node's own tokens come first.
    uint16_t n_own;        // Number of tokens that end at this node.
    uint8_t byte;
    uint8_t depth;   // Starts at 1. No string in the tree is longer than 255 bytes.
    uint8_t height;  // Maximum number of bytes that follow this node in any string.
  };
  std::vector<Node> nodes;       // In depth-first order, without the root.
  std::vector<uint32_t> tokens;  // Token IDs, in node order.
  std::span<const uint32_t> own_tokens(const Node& node) const {
    return std::span(tokens).subspan(node.first_token, node.n_own);
  }
  // All tokens whose text starts with the text of `node`, including tokens with exactly this text.
  std::span<const uint32_t> tokens_below(const Node& node) const {
    const size_t behind = node.end < nodes.size() ? nodes[node.end].first_token : tokens.size();
    return std::span(tokens).subspan(node.first_token, behind - node.first_token);
  }
};

class TokenTrie {
 public:
  static constexpr size_t kLongest = 255;

  // `bytes[id]` is the token's text; empty for tokens that no grammar ever allows (control tokens).
  explicit TokenTrie(std::span<const std::string> bytes);

  size_t n_tokens() const { return n_tokens_; }
  // Tokens that consist only of whole characters at or above U+0020, excluding the double quote and the backslash.
  const TokenTree& plain() const { return plain_; }
  const TokenTree& other() const { return other_; }
  const TokenMask& plain_mask() const { return plain_mask_; }
  size_t longest_plain() const { return longest_plain_; }  // Length in characters.

 private:
  size_t n_tokens_;
  TokenTree plain_, other_;
  TokenMask plain_mask_;
  size_t longest_plain_ = 0;
};

}  // namespace monolith::grammar
