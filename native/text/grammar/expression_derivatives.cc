// Derivatives: expressions for the text that follows a given character.
#include "text/grammar/expression.h"

#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

constexpr int kDeepest = 128;  // Maximum recursion depth of derivative(). Deeper expressions use an explicit stack.

}  // namespace

ExprId ExpressionPool::derivative(ExprId e, CharClassId c) {
  const uint64_t key = uint64_t{e} << 16 | c;
  const auto known = derivatives_.find(key);
  if (known != derivatives_.end()) return known->second;
  if (!fuel_.spend()) return dry();
  if (depth_ == kDeepest) return derive_upwards(e, c);
  ++depth_;
  const ExprId result = compute(e, c);
  --depth_;
  if (failed()) return kNothing;
  if (derivatives_.size() < 2 * most_nodes_) derivatives_.emplace(key, result);
  return result;
}

// Computes the same derivative bottom-up and without recursion, because with nested rules, an expression may be as deep
// as the text is long.
ExprId ExpressionPool::derive_upwards(ExprId e, CharClassId c) {
  std::vector<ExprId> open{e};
  const auto need = [&](ExprId part) {
    if (!knows_derivative(part, c)) open.push_back(part);
  };
  while (!open.empty()) {
    const ExprId at = open.back();
    if (knows_derivative(at, c)) {
      open.pop_back();
      continue;
    }
    const size_t n_open = open.size();
    const Node& node = nodes_[at];
    switch (node.kind) {
      case Kind::kConcat: {
        ExprId part = at;
        do {
          need(nodes_[part].a);
          const bool goes_on = nodes_[nodes_[part].a].nullable;
          part = nodes_[part].b;
          if (!goes_on) break;
          if (nodes_[part].kind != Kind::kConcat) need(part);
        } while (nodes_[part].kind == Kind::kConcat);
        break;
      }
      case Kind::kEither:
      case Kind::kBoth:
        for (const uint32_t child : list(node)) need(child);
        break;
      case Kind::kNegate:
      case Kind::kRepeat:
      case Kind::kNonEmpty: need(node.a); break;
      case Kind::kRule: need(definitions_[node.a]); break;
      default: break;
    }
    if (derivatives_.size() >= 4 * most_nodes_) return fail();
    if (!fuel_.spend(1 + open.size() - n_open)) return dry();
    if (open.size() > n_open) continue;
    open.pop_back();
    const ExprId result = compute(at, c);
    if (failed()) return kNothing;
    derivatives_.emplace(uint64_t{at} << 16 | c, result);
  }
  return derivatives_.at(uint64_t{e} << 16 | c);
}

ExprId ExpressionPool::compute(ExprId e, CharClassId c) {
  const Node node = nodes_[e];  // A copy because nodes_ may be reallocated.
  switch (node.kind) {
    case Kind::kNothing:
    case Kind::kEmpty:
    case Kind::kTag: return kNothing;
    case Kind::kAnything: return kAnything;
    case Kind::kSet: return set_has(node.a, c) ? kEmpty : kNothing;
    case Kind::kConcat: {
      // If leading parts of a concatenation can match the empty text, the character may belong to any of these parts or
      // to the first part after them.
      std::vector<ExprId> ways;
      for (ExprId at = e;;) {
        const Node part = nodes_[at];
        if (part.kind != Kind::kConcat) {
          ways.push_back(derivative(at, c));
          break;
        }
        ways.push_back(concat(derivative(part.a, c), part.b));
        if (!nodes_[part.a].nullable) break;
        at = part.b;
      }
      return ways.size() == 1 ? ways.front() : either(std::move(ways));
    }
    case Kind::kEither:
    case Kind::kBoth: {
      const std::vector<uint32_t> children(lists_.begin() + node.a, lists_.begin() + node.b);
      std::vector<ExprId> parts;
      for (const uint32_t child : children) {
        const ExprId part = derivative(child, c);
        if (node.kind == Kind::kBoth && part == kNothing) return kNothing;
        if (part != kNothing) parts.push_back(part);
      }
      return node.kind == Kind::kEither ? either(std::move(parts)) : both(std::move(parts));
    }
    case Kind::kNegate: return negate(derivative(node.a, c));
    case Kind::kRule: return derivative(definitions_[node.a], c);
    case Kind::kNonEmpty: return derivative(node.a, c);
    case Kind::kRemainder: {
      const uint32_t digit = partition_.example(c) - '0';
      if (digit > 9) return kNothing;
      return remainder(node.a, static_cast<uint32_t>((uint64_t{node.b} * 10 + digit) % node.a));
    }
    case Kind::kRepeat: {
      const ExprId one = derivative(node.a, c);
      if (one == kNothing) return kNothing;
      const uint32_t least = node.b == 0 ? 0 : node.b - 1;
      const uint32_t most = node.c == kUnbounded ? kUnbounded : node.c - 1;
      return concat(one, repeat(node.a, least, most));
    }
  }
  return kNothing;
}

void ExpressionPool::beginnings(ExprId e, bool rests, std::vector<Beginning>& out) {
  const auto behind = [&](ExprId then, ExprId rest) { return rests ? concat(then, rest) : kEmpty; };
  std::vector<Beginning> open{{e, kEmpty}};
  while (!open.empty() && !failed()) {
    const Beginning now = open.back();
    open.pop_back();
    if (!fuel_.spend()) run_dry();
    const Node node = nodes_[now.first];  // A copy because nodes_ may be reallocated.
    switch (node.kind) {
      case Kind::kSet:
      case Kind::kRule:
      case Kind::kNonEmpty: out.push_back(now); break;
      case Kind::kConcat:
        open.push_back({node.a, behind(node.b, now.rest)});
        if (nodes_[node.a].nullable) open.push_back({node.b, now.rest});
        break;
      case Kind::kEither:
        for (uint32_t i = node.a; i < node.b; ++i) open.push_back({lists_[i], now.rest});
        break;
      case Kind::kRepeat:
        open.push_back({node.a, behind(repeat(node.a, node.b == 0 ? 0 : node.b - 1,
                                              node.c == kUnbounded ? kUnbounded : node.c - 1),
                                       now.rest)});
        break;
      case Kind::kAnything: out.push_back({set(CodePointSet::all()), behind(kAnything, now.rest)}); break;
      default: break;
    }
  }
}

bool ExpressionPool::fits(ExprId e, std::string_view utf8) {
  while (!utf8.empty() && e != kNothing) {
    const Utf8Char c = decode_utf8(utf8);
    if (c.code_point == kInvalidByte) return false;
    e = derivative(e, partition_.class_of(c.code_point));
    utf8.remove_prefix(c.size);
  }
  return nodes_[e].nullable;
}

}  // namespace monolith::grammar
