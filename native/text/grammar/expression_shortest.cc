// Finds shortest strings that recursive rules match. An intersection that contains such rules can have infinitely many
// states, so a depth-first search for a matching string may never end. However, a rule's shortest string nearly always
// matches the other parts of the intersection too.
#include <algorithm>

#include "text/grammar/expression.h"

namespace monolith::grammar {
namespace {

constexpr uint32_t kMaxLength = 4096;
constexpr int kDeepestText = 256;  // Maximum nesting depth of an expression, including the rules in it.

}  // namespace

// Computes the length of each rule's shortest text as a least fixed point (Knuth 1977). Sizes are compared by length,
// then by depth. Comparing depths ensures that append_shortest_text() terminates, because each step leads to a rule of
// smaller depth.
void ExpressionPool::find_rule_sizes() {
  rule_sizes_.assign(definitions_.size(), kNoTextSize);
  TextSizes known;
  for (bool changed = true; changed && !failed();) {
    changed = false;
    known.clear();
    for (size_t rule = 0; rule < definitions_.size() && !failed(); ++rule) {
      TextSize size = text_size(definitions_[rule], known);
      if (size == kNoTextSize) continue;
      ++size.depth;
      if (size < rule_sizes_[rule]) rule_sizes_[rule] = size, changed = true;
    }
  }
  if (failed()) rule_sizes_.clear();
}

// The same expression may occur in many places, so its size is computed only once.
ExpressionPool::TextSize ExpressionPool::text_size(ExprId e, TextSizes& known, int depth) {
  if (const auto found = known.find(e); found != known.end()) return found->second;
  const ExprId whole = e;
  TextSize sum{0, 0};
  for (bool goes_on = true; goes_on;) {
    if (!fuel_.spend()) return run_dry(), kNoTextSize;
    const Node& node = nodes_[e];
    goes_on = node.kind == Kind::kConcat;
    const Node& part = goes_on ? nodes_[node.a] : node;
    TextSize size = kNoTextSize;
    if (part.nullable && part.kind != Kind::kRule) {
      size = {0, 0};
    } else if (depth < kDeepestText) {
      switch (part.kind) {
        case Kind::kSet: size = {1, 0}; break;
        case Kind::kRule: size = rule_sizes_[part.a]; break;
        case Kind::kConcat: size = text_size(node.a, known, depth + 1); break;
        case Kind::kEither:
          for (const ExprId way : list(part)) size = std::min(size, text_size(way, known, depth + 1));
          break;
        case Kind::kRepeat:
          size = text_size(part.a, known, depth + 1);
          if (size != kNoTextSize) size.length = std::min<uint64_t>(uint64_t{size.length} * part.b, kMaxLength);
          break;
        default: break;
      }
    }
    if (size == kNoTextSize) {
      sum = size;
      break;
    }
    sum = {std::min(sum.length + size.length, kMaxLength), std::max(sum.depth, size.depth)};
    e = node.b;
  }
  known.emplace(whole, sum);
  return sum;
}

// Returns false if no matching text is known or if the text is too long.
bool ExpressionPool::append_shortest_text(ExprId e, TextSizes& known, std::vector<CharClassId>& out, int depth) {
  if (depth == kDeepestText) return false;
  for (bool goes_on = true; goes_on;) {
    if (out.size() >= kMaxLength || !fuel_.spend()) return false;
    const Node& node = nodes_[e];
    goes_on = node.kind == Kind::kConcat;
    const ExprId part_id = goes_on ? node.a : e;
    const Node& part = nodes_[part_id];
    e = node.b;
    if (part.nullable) continue;
    switch (part.kind) {
      case Kind::kSet: {
        CharClassId c = 0;
        while (c < partition_.n_classes() && !(set_has(part.a, c) && partition_.size(c) > 0)) ++c;
        if (c == partition_.n_classes()) return false;
        out.push_back(c);
        break;
      }
      case Kind::kRule:
        if (!append_shortest_text(definitions_[part.a], known, out, depth + 1)) return false;
        break;
      case Kind::kConcat:
        if (!append_shortest_text(part_id, known, out, depth + 1)) return false;
        break;
      case Kind::kEither: {
        const auto ways = list(part);
        const auto best = std::ranges::min_element(ways, {}, [&](ExprId way) { return text_size(way, known); });
        if (!append_shortest_text(*best, known, out, depth + 1)) return false;
        break;
      }
      case Kind::kRepeat:
        for (uint32_t i = 0; i < part.b; ++i)
          if (!append_shortest_text(part.a, known, out, depth + 1)) return false;
        break;
      default: return false;
    }
  }
  return true;
}

// Returns whether the intersection `both` matches a shortest text of one of its parts.
bool ExpressionPool::completes(ExprId both, TextSizes& known) {
  const std::vector<ExprId> parts(list(nodes_[both]).begin(), list(nodes_[both]).end());
  for (const ExprId part : parts) {
    std::vector<CharClassId> text;
    if (text_size(part, known) == kNoTextSize || !append_shortest_text(part, known, text)) continue;
    std::vector<ExprId> path{both};
    for (const CharClassId c : text) {
      path.push_back(derivative(path.back(), c));
      if (failed()) return false;
      if (path.back() == kNothing || life_[path.back()] != Life::kUnknown) break;
    }
    if (!nodes_[path.back()].nullable && life_[path.back()] != Life::kAlive) continue;
    for (const ExprId on : path) life_[on] = Life::kAlive;
    return true;
  }
  return false;
}

bool ExpressionPool::completes_shortly(ExprId e) {
  if (rule_sizes_.size() != definitions_.size()) find_rule_sizes();
  if (failed()) return false;
  TextSizes known;
  std::vector<ExprId> ways{e};
  if (nodes_[e].kind == Kind::kEither) ways.assign(list(nodes_[e]).begin(), list(nodes_[e]).end());
  for (const ExprId way : ways) {
    if (nodes_[way].kind != Kind::kBoth || !completes(way, known)) continue;
    life_[e] = Life::kAlive;
    return true;
  }
  return false;
}

}  // namespace monolith::grammar
