#include "text/tokenizer/special_matcher.h"

#include <algorithm>

namespace monolith {

SpecialMatcher::SpecialMatcher(std::vector<Entry> entries, Order order) : order_(order) {
  std::erase_if(entries, [](const Entry& entry) { return entry.spelling.empty(); });
  std::ranges::stable_sort(entries, {}, &Entry::spelling);
  const auto repeated = std::ranges::unique(entries, {}, &Entry::spelling);
  entries.erase(repeated.begin(), repeated.end());

  // Builds the trie breadth-first from ranges of the sorted spellings that share their first `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (begin < end && entries[begin].spelling.size() == depth)
      nodes_[node].id = entries[begin++].id;  // Spellings are unique.
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = entries[begin].spelling[depth];
      size_t next = begin + 1;
      while (next < end && entries[next].spelling[depth] == byte) ++next;
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<uint32_t>(nodes_.size())});
      ++nodes_[node].n_edges;
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
  for (uint32_t i = 0; i < nodes_[0].n_edges; ++i) root_child_[edges_[i].byte] = edges_[i].node;
}

uint32_t SpecialMatcher::child(uint32_t node, unsigned char byte) const {
  const Edge* edges = edges_.data() + nodes_[node].first_edge;
  const Edge* end = edges + nodes_[node].n_edges;
  // Most nodes have one edge. Edges are ordered by unsigned byte value, the order in which std::string_view compares.
  const Edge* at = std::lower_bound(edges, end, byte, [](const Edge& edge, unsigned char b) { return edge.byte < b; });
  return at != end && at->byte == byte ? at->node : 0;
}

SpecialMatch SpecialMatcher::longest_at(std::string_view text, size_t begin, size_t below) const {
  SpecialMatch best = {begin, begin, kNoToken};
  uint32_t node = root_child_[static_cast<unsigned char>(text[begin])];
  for (size_t end = begin + 1; node != 0 && end - begin < below; ++end) {
    if (nodes_[node].id != kNoToken) best = {begin, end, nodes_[node].id};
    if (end == text.size()) break;
    node = child(node, static_cast<unsigned char>(text[end]));
  }
  return best;
}

void SpecialMatcher::find(std::string_view text, std::span<const size_t> guards, std::vector<SpecialMatch>& out) const {
  out.clear();
  if (edges_.empty()) return;
  bool overlap = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (root_child_[static_cast<unsigned char>(text[i])] == 0) continue;
    const SpecialMatch match = longest_at(text, i, kMaxTokenBytes + 1);
    if (match.id == kNoToken) continue;
    if (order_ == Order::kLeftmost) {
      out.push_back(match);
      i = match.end - 1;
      continue;
    }
    overlap |= !out.empty() && out.back().end > i;
    out.push_back(match);
  }
  if (overlap) choose(text, out);
  if (guards.empty()) return;
  std::erase_if(out, [&](const SpecialMatch& match) {
    const auto guard = std::upper_bound(guards.begin(), guards.end(), match.begin);
    return guard != guards.end() && *guard < match.end;
  });
}

// `candidates` contains the longest match at each position. Matches are processed in buckets by length, longest first.
// If a longer match already covers the right end of a match, that match is replaced with the next shorter token at the
// same position.
void SpecialMatcher::choose(std::string_view text, std::vector<SpecialMatch>& candidates) const {
  std::vector<std::vector<SpecialMatch>> by_length(kMaxTokenBytes + 1);
  for (const SpecialMatch& match : candidates) by_length[match.end - match.begin].push_back(match);
  candidates.clear();
  std::vector<bool> taken(text.size());
  for (size_t length = kMaxTokenBytes; length > 0; --length) {
    std::vector<SpecialMatch>& bucket = by_length[length];
    std::sort(bucket.begin(), bucket.end(),
              [](const SpecialMatch& a, const SpecialMatch& b) { return a.begin < b.begin; });
    for (const SpecialMatch& match : bucket) {
      // Every range taken so far is at least as long as this match, so any of these ranges that overlaps this match
      // covers at least one of its ends.
      if (taken[match.begin]) continue;
      if (!taken[match.end - 1]) {
        std::fill(taken.begin() + match.begin, taken.begin() + match.end, true);
        candidates.push_back(match);
        continue;
      }
      const SpecialMatch shorter = longest_at(text, match.begin, length);
      if (shorter.id != kNoToken) by_length[shorter.end - shorter.begin].push_back(shorter);
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const SpecialMatch& a, const SpecialMatch& b) { return a.begin < b.begin; });
}

}  // namespace monolith
