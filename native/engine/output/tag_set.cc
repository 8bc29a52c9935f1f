#include "engine/output/tag_set.h"

#include <algorithm>
#include <utility>

namespace monolith {

TagSet::TagSet(std::vector<Tag> tags) : tags_(std::move(tags)) {
  if (tags_.empty()) return;
  // Uses an insertion sort, which is stable and allocates nothing.
  for (auto tag = tags_.begin(); tag != tags_.end(); ++tag)
    std::rotate(std::ranges::upper_bound(tags_.begin(), tag, tag->tokens, {}, &Tag::tokens), tag, tag + 1);
  struct Range {
    size_t first, last, length;  // The tags first .. last - 1 agree in their first `length` tokens.
  };
  std::vector<Range> ranges = {{0, tags_.size(), 0}};
  nodes_.emplace_back();
  tokens_.push_back(kNoToken);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const auto [first, last, length] = ranges[node];
    // A shorter tag comes before the tags that extend it.
    if (tags_[first].tokens.size() == length) {
      nodes_[node].tag = static_cast<int32_t>(first);
      continue;
    }
    nodes_[node].first = static_cast<Node>(nodes_.size());
    for (size_t at = first, end = first; at < last; at = end) {
      const TokenId token = tags_[at].tokens[length];
      while (end < last && tags_[end].tokens[length] == token) ++end;
      ranges.push_back({at, end, length + 1});
      nodes_.emplace_back();
      tokens_.push_back(token);
      ++nodes_[node].n;
    }
  }
}

std::span<const TokenId> TagSet::next(Node node) const {
  if (empty()) return {};
  return {tokens_.data() + nodes_[node].first, nodes_[node].n};
}

TagSet::Node TagSet::advance(Node node, TokenId token) const {
  const std::span<const TokenId> allowed = next(node);
  const auto at = std::ranges::lower_bound(allowed, token);
  if (at == allowed.end() || *at != token) return kNowhere;
  return nodes_[node].first + static_cast<Node>(at - allowed.begin());
}

const Tag* TagSet::complete(Node node) const {
  const int32_t tag = node == kNowhere || empty() ? kNoTag : nodes_[node].tag;
  return tag == kNoTag ? nullptr : &tags_[static_cast<size_t>(tag)];
}

}  // namespace monolith
