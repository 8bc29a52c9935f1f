// Structural tags: token sequences that delimit the sections of an output, and the content that follows each of them. A
// TagSet contains the tags that are possible at one place and walks them token by token: where the remaining tags
// agree, the token is forced; where they differ, the sampler chooses among their next tokens. Immutable after
// construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace monolith {

struct Tag {
  // What follows the tag: a tool call's arguments, content after the end of the reasoning, content after a header of
  // the content, the output format, or content after the end of the tool-call section.
  enum class Then : uint8_t { kCall, kReasoningEnd, kAnswer, kFormat, kCallsEnd };

  std::vector<TokenId> tokens;  // Not empty.
  Then then = Then::kCall;
  GrammarRef grammar;  // For kCall and kFormat: grammar of the text that follows; null = unconstrained.
};

// A trie of tags. If one tag is the beginning of another, the walk ends with the shorter one. If several tags have the
// same tokens, the first one takes precedence.
class TagSet {
 public:
  using Node = uint32_t;
  static constexpr Node kStart = 0, kNowhere = UINT32_MAX;

  TagSet() = default;
  explicit TagSet(std::vector<Tag> tags);

  bool empty() const { return tags_.empty(); }
  // Tokens that may come next at a node, in ascending order. Empty at the end of a tag, and if the set is empty.
  std::span<const TokenId> next(Node node = kStart) const;
  // Returns the node after `token`, or kNowhere if no tag continues with it.
  Node advance(Node node, TokenId token) const;
  // Returns the tag that ends at this node, or null if there is none.
  const Tag* complete(Node node) const;
  // Whether a tag starts with this token.
  bool starts_with(TokenId token) const { return !empty() && advance(kStart, token) != kNowhere; }

 private:
  struct Branch {
    Node first = 0;        // The first child. All children of a node are consecutive.
    uint32_t n = 0;        // Number of children.
    int32_t tag = kNoTag;  // Index in tags_ of the tag that is complete here.
  };
  static constexpr int32_t kNoTag = -1;

  std::vector<Tag> tags_;        // Ascending by tokens.
  std::vector<Branch> nodes_;    // In breadth-first order, so that the children's tokens lie next to each other.
  std::vector<TokenId> tokens_;  // The token that leads to each node; unused for the first one.
};

}  // namespace monolith
