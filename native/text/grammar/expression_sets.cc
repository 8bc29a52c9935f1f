// Union and intersection. Parts that another part already covers are dropped, which keeps the number of states small.
#include "text/grammar/expression.h"

#include <algorithm>

namespace monolith::grammar {

ExprId ExpressionPool::either(ExprId a, ExprId b) {
  if (a == b || b == kNothing) return a;
  if (a == kNothing) return b;
  return either(std::vector<ExprId>{a, b});
}

ExprId ExpressionPool::either(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  std::vector<uint64_t> bits;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ExprId part = parts[i];
    const Node& node = nodes_[part];
    switch (node.kind) {
      case Kind::kNothing: break;
      case Kind::kAnything: return kAnything;
      case Kind::kEither:
        for (const uint32_t child : list(node)) flat.push_back(child);
        break;
      default: flat.push_back(part);
    }
  }
  // Merges all character sets into one.
  size_t n_sets = 0;
  for (const ExprId e : flat) n_sets += nodes_[e].kind == Kind::kSet;
  if (n_sets > 1) {
    bits.assign(words_per_set_, 0);
    for (const ExprId e : flat)
      if (nodes_[e].kind == Kind::kSet)
        for (size_t w = 0; w < words_per_set_; ++w) bits[w] |= sets_[nodes_[e].a * words_per_set_ + w];
    std::erase_if(flat, [&](ExprId e) { return nodes_[e].kind == Kind::kSet; });
    flat.push_back(set_of_classes(bits));
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  // The empty text is redundant if another alternative already matches it.
  if (flat.size() > 1 && flat.front() == kEmpty) {
    const bool covered = std::any_of(flat.begin() + 1, flat.end(),
                                     [&](ExprId e) { return nodes_[e].nullable && nodes_[e].kind != Kind::kTag; });
    if (covered) flat.erase(flat.begin());
  }
  if (!definitions_.empty()) drop_covered(flat);
  if (flat.size() > 1) drop_narrower(flat);
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat.front();
  const bool nullable = std::any_of(flat.begin(), flat.end(), [&](ExprId e) { return nodes_[e].nullable; });
  return intern({Kind::kEither, nullable}, flat);
}

// Drops alternatives that are contained in another alternative: in xy|y, y is dropped if x may be empty. Without this,
// ambiguous rules would accumulate such alternatives. `ways`: the alternatives, sorted.
void ExpressionPool::drop_covered(std::vector<ExprId>& ways) {
  if (ways.size() < 2) return;
  std::vector<ExprId> covered;
  for (const ExprId way : ways) {
    for (ExprId at = way; nodes_[at].kind == Kind::kConcat && nodes_[nodes_[at].a].nullable;) {
      at = nodes_[at].b;
      if (!fuel_.spend()) return;
      if (!std::binary_search(ways.begin(), ways.end(), at)) continue;
      if (free_characters(at) == 0) covered.push_back(at);
      break;  // The rest of `at` is checked when `at` itself is processed.
    }
  }
  std::sort(covered.begin(), covered.end());
  if (!covered.empty())
    std::erase_if(ways, [&](ExprId way) { return std::binary_search(covered.begin(), covered.end(), way); });
}

// Drops a repetition if its counts lie within the counts of another repetition of the same operand. Without this,
// nested counts would multiply.
void ExpressionPool::drop_narrower(std::vector<ExprId>& ways) {
  const auto counted = [&](ExprId e) {
    const Node& head = nodes_[nodes_[e].kind == Kind::kConcat ? nodes_[e].a : e];
    return head.kind == Kind::kRepeat ? head.a : kFailed;
  };
  std::vector<std::pair<ExprId, ExprId>> by_repeated;
  for (const ExprId way : ways)
    if (const ExprId repeated = counted(way); repeated != kFailed) by_repeated.emplace_back(repeated, way);
  if (by_repeated.size() < 2) return;
  std::sort(by_repeated.begin(), by_repeated.end());
  std::vector<ExprId> covered;
  for (size_t first = 0, end; first < by_repeated.size(); first = end) {
    for (end = first + 1; end < by_repeated.size() && by_repeated[end].first == by_repeated[first].first; ++end)
      continue;
    for (size_t i = first; i < end; ++i)
      for (size_t j = first; j < end; ++j) {
        if (i == j) continue;
        if (!fuel_.spend()) return;
        if (!covers(by_repeated[j].second, by_repeated[i].second)) continue;
        covered.push_back(by_repeated[i].second);
        break;
      }
  }
  if (covered.empty()) return;
  std::sort(covered.begin(), covered.end());
  std::erase_if(ways, [&](ExprId way) { return std::binary_search(covered.begin(), covered.end(), way); });
}

// A cheap check. If it returns true, every string that matches `narrow` also matches `wide`; if it returns false,
// nothing is known.
bool ExpressionPool::covers(ExprId wide, ExprId narrow) const {
  for (;;) {
    if (wide == narrow) return true;
    const Node &a = nodes_[wide], &b = nodes_[narrow];
    if (a.kind == Kind::kRepeat && b.kind == Kind::kRepeat) return a.a == b.a && a.b <= b.b && a.c >= b.c;
    if (a.kind != Kind::kConcat || b.kind != Kind::kConcat) return false;
    if (a.a != b.a) {
      const Node &head = nodes_[a.a], &of_narrow = nodes_[b.a];
      if (head.kind != Kind::kRepeat || of_narrow.kind != Kind::kRepeat || head.a != of_narrow.a ||
          head.b > of_narrow.b || head.c < of_narrow.c)
        return false;
    }
    wide = a.b;
    narrow = b.b;
  }
}

ExprId ExpressionPool::both(ExprId a, ExprId b) {
  if (a == b || b == kAnything) return a;
  if (a == kAnything) return b;
  return both(std::vector<ExprId>{a, b});
}

ExprId ExpressionPool::both(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  for (const ExprId part : parts) {
    const Node& node = nodes_[part];
    switch (node.kind) {
      case Kind::kNothing: return kNothing;
      case Kind::kAnything: break;
      case Kind::kBoth:
        for (const uint32_t child : list(node)) flat.push_back(child);
        break;
      default: flat.push_back(part);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  // The intersection of x{a,b} and x{c,d}, where x is the same character set, is a single repetition.
  for (size_t i = 0; i < flat.size(); ++i) {
    Node one = nodes_[flat[i]];
    if (one.kind != Kind::kRepeat || nodes_[one.a].kind != Kind::kSet) continue;
    bool merged = false;
    for (size_t j = flat.size(); j-- > i + 1;) {
      const Node& other = nodes_[flat[j]];
      if (other.kind != Kind::kRepeat || other.a != one.a) continue;
      one.b = std::max(one.b, other.b);
      one.c = std::min(one.c, other.c);
      flat.erase(flat.begin() + static_cast<ptrdiff_t>(j));
      merged = true;
    }
    if (one.b > one.c) return kNothing;
    if (merged) flat[i] = repeat(one.a, one.b, one.c);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  std::erase(flat, kAnything);
  if (flat.empty()) return kAnything;
  const bool nullable = std::all_of(flat.begin(), flat.end(), [&](ExprId e) { return nodes_[e].nullable; });
  if (flat.front() == kEmpty) return nullable ? kEmpty : kNothing;
  for (const ExprId e : flat)
    if (nodes_[e].kind == Kind::kNegate && std::binary_search(flat.begin(), flat.end(), nodes_[e].a)) return kNothing;
  if (flat.size() == 1) return flat.front();
  return intern({Kind::kBoth, nullable}, flat);
}

}  // namespace monolith::grammar
