#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

// Returns the token's length in characters if the token may occur at any character boundary of a JSON string, otherwise
// 0.
size_t plain_characters(std::string_view bytes) {
  size_t n = 0;
  while (!bytes.empty()) {
    const Utf8Char c = decode_utf8(bytes);
    if (c.code_point == kInvalidByte || c.code_point < 0x20 || c.code_point == '"' || c.code_point == '\\') return 0;
    bytes.remove_prefix(c.size);
    ++n;
  }
  return n;
}

TokenTree build(std::vector<std::pair<std::string_view, uint32_t>>& entries) {
  std::sort(entries.begin(), entries.end());
  TokenTree tree;
  std::vector<uint32_t> path;  // Nodes from the root to the current node.
  std::string_view last;
  for (const auto& [bytes, token] : entries) {
    size_t common = 0;
    while (common < bytes.size() && common < last.size() && bytes[common] == last[common]) ++common;
    while (path.size() > common) {
      tree.nodes[path.back()].end = static_cast<uint32_t>(tree.nodes.size());
      path.pop_back();
    }
    while (path.size() < bytes.size()) {
      path.push_back(static_cast<uint32_t>(tree.nodes.size()));
      tree.nodes.push_back({0, static_cast<uint32_t>(tree.tokens.size()), 0,
                            static_cast<uint8_t>(bytes[path.size() - 1]), static_cast<uint8_t>(path.size()), 0});
    }
    ++tree.nodes[path.back()].n_own;
    tree.tokens.push_back(token);
    last = bytes;
  }
  for (const uint32_t node : path) tree.nodes[node].end = static_cast<uint32_t>(tree.nodes.size());
  // Each node raises the height of its ancestors to at least its own distance from them.
  std::vector<uint32_t> parents;
  for (uint32_t node = 0; node < tree.nodes.size(); ++node) {
    while (parents.size() >= tree.nodes[node].depth) parents.pop_back();
    for (size_t i = 0; i < parents.size(); ++i) {
      uint8_t& height = tree.nodes[parents[i]].height;
      height = std::max(height, static_cast<uint8_t>(tree.nodes[node].depth - tree.nodes[parents[i]].depth));
    }
    parents.push_back(node);
  }
  return tree;
}

}  // namespace

size_t TokenMask::count() const {
  size_t n = 0;
  for (const uint64_t word : words_) n += static_cast<size_t>(__builtin_popcountll(word));
  return n;
}

TokenTrie::TokenTrie(std::span<const std::string> bytes) : n_tokens_(bytes.size()), plain_mask_(bytes.size()) {
  std::vector<std::pair<std::string_view, uint32_t>> plain, other;
  for (uint32_t id = 0; id < bytes.size(); ++id) {
    const std::string_view text = bytes[id];
    // Tokens above the length limit are never allowed; their text can also be written with shorter tokens.
    if (text.empty() || text.size() > kLongest) continue;
    const size_t n = plain_characters(text);
    longest_plain_ = std::max(longest_plain_, n);
    (n > 0 ? plain : other).emplace_back(text, id);
    if (n > 0) plain_mask_.set(id);
  }
  plain_ = build(plain);
  other_ = build(other);
}

}  // namespace monolith::grammar
