// Queries on expressions that do not need derivatives.
#include "text/grammar/expression.h"

#include <algorithm>

namespace monolith::grammar {

uint32_t ExpressionPool::free_characters(ExprId e) const {
  const Node& node = nodes_[e];
  switch (node.kind) {
    case Kind::kAnything: return kUnbounded;
    case Kind::kConcat: return node.a == kAnything ? kUnbounded : 0;
    case Kind::kRepeat: {
      const Node& one = nodes_[node.a];
      if (one.kind != Kind::kSet) return 0;
      for (CharClassId c = 0; c < partition_.n_classes(); ++c)
        if (!set_has(one.a, c) && (partition_.example(c) < 0xD800 || partition_.example(c) > 0xDFFF)) return 0;
      return node.c;
    }
    case Kind::kEither: {
      uint32_t most = 0;
      for (const uint32_t child : list(node)) most = std::max(most, free_characters(child));
      return most;
    }
    default: return 0;
  }
}

uint32_t ExpressionPool::free_before(ExprId e) const {
  const Node& node = nodes_[e];
  switch (node.kind) {
    case Kind::kEither: {
      uint32_t most = 0;
      for (const uint32_t child : list(node)) most = std::max(most, free_before(child));
      return most;
    }
    case Kind::kBoth: {
      uint32_t least = kUnbounded;
      for (const uint32_t child : list(node)) {
        // A part of either kind (a complement or a repetition) matches all strings up to its own length limit, so the
        // intersection matches all strings up to the smallest limit.
        const Node& part = nodes_[child];
        if (part.kind == Kind::kNegate)
          least = std::min(least, free_before(child));
        else if (part.kind == Kind::kRepeat && part.b == 0)
          least = std::min(least, free_characters(child));
        else
          return 0;
      }
      return least;
    }
    case Kind::kNegate: {
      const uint32_t length = shortest(node.a);
      // The complement matches every string that is shorter than the operand's shortest match.
      return length == 0 ? 0 : length - 1;
    }
    default: return free_characters(e);
  }
}

// Returns a lower bound on the length, in characters, of any string that matches `e`.
uint32_t ExpressionPool::shortest(ExprId e, int depth) const {
  constexpr int kDeepest = 16;
  constexpr uint32_t kMax = 1 << 16;
  uint32_t length = 0;
  while (nodes_[e].kind == Kind::kConcat && length < kMax) {
    length += depth < kDeepest ? shortest(nodes_[e].a, depth + 1) : 0;
    e = nodes_[e].b;
  }
  const Node& node = nodes_[e];
  if (node.kind == Kind::kSet) return length + 1;
  if (node.kind != Kind::kEither || depth == kDeepest) return length;
  uint32_t least = kMax;
  for (const uint32_t child : list(node)) least = std::min(least, shortest(child, depth + 1));
  return length + least;
}

void ExpressionPool::tags(ExprId e, std::vector<uint32_t>& out) const {
  out.clear();
  std::vector<ExprId> open{e};
  while (!open.empty()) {
    const Node& node = nodes_[open.back()];
    open.pop_back();
    if (!node.nullable) continue;
    switch (node.kind) {
      case Kind::kTag: out.push_back(node.a); break;
      case Kind::kEither:
        for (const uint32_t child : list(node)) open.push_back(child);
        break;
      case Kind::kConcat: open.push_back(node.b); break;  // In a concatenation, a tag is always last.
      default: break;
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

}  // namespace monolith::grammar
