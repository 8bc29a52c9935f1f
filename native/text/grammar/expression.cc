// Constructors of expressions. Each distinct expression is stored once, in the simplest form that cheap checks can
// find.
#include "text/grammar/expression.h"

#include <algorithm>

#include "text/grammar/mix.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {

ExpressionPool::ExpressionPool(const CharPartition& partition, size_t most_nodes)
    : partition_(partition), most_nodes_(most_nodes), words_per_set_((partition.n_classes() + 63) / 64) {
  nodes_.push_back({Kind::kNothing, false});
  nodes_.push_back({Kind::kEmpty, true});
  nodes_.push_back({Kind::kAnything, true});
  life_ = {Life::kDead, Life::kAlive, Life::kAlive};
}

ExprId ExpressionPool::intern(Node node, std::span<const uint32_t> list) {
  uint64_t hash = mix(static_cast<uint64_t>(node.kind), 1);
  if (list.empty()) {
    hash = mix(mix(mix(hash, node.a), node.b), node.c);
  } else {
    for (const uint32_t id : list) hash = mix(hash, id);
  }
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Node& known = nodes_[at->second];
    if (known.kind != node.kind) continue;
    if (list.empty()) {
      if (known.a == node.a && known.b == node.b && known.c == node.c) return at->second;
    } else if (std::ranges::equal(this->list(known), list)) {
      return at->second;
    }
  }
  if (nodes_.size() + lists_.size() / 8 >= most_nodes_) return fail();
  if (!fuel_.spend(1 + list.size())) return dry();
  if (!list.empty()) {
    node.a = static_cast<uint32_t>(lists_.size());
    lists_.insert(lists_.end(), list.begin(), list.end());
    node.b = static_cast<uint32_t>(lists_.size());
  }
  const ExprId id = static_cast<ExprId>(nodes_.size());
  // As long as there is no intersection or complement, the constructors guarantee that every expression matches some
  // text.
  bool plain = node.kind != Kind::kBoth && node.kind != Kind::kNegate;
  switch (node.kind) {
    case Kind::kConcat: plain = life_[node.a] == Life::kAlive && life_[node.b] == Life::kAlive; break;
    case Kind::kRepeat: plain = node.b == 0 || life_[node.a] == Life::kAlive; break;
    case Kind::kEither:
      plain = std::ranges::any_of(list, [&](uint32_t child) { return life_[child] == Life::kAlive; });
      break;
    case Kind::kBoth:
    case Kind::kNegate: plain = node.nullable; break;
    default: break;
  }
  nodes_.push_back(node);
  life_.push_back(plain ? Life::kAlive : Life::kUnknown);
  by_hash_.emplace(hash, id);
  return id;
}

ExprId ExpressionPool::set(const CodePointSet& code_points) {
  std::vector<uint64_t> bits(words_per_set_);
  size_t n = 0;
  for (const auto& range : code_points.ranges())
    partition_.for_each_class(range.first, range.last,
                              [&](CharClassId c, uint32_t) { bits[c / 64] |= uint64_t{1} << (c % 64); });
  for (const uint64_t word : bits) n += static_cast<size_t>(__builtin_popcountll(word));
  return n == 0 ? kNothing : set_of_classes(bits);
}

ExprId ExpressionPool::set_of_classes(const std::vector<uint64_t>& bits) {
  uint64_t hash = 7;
  for (const uint64_t word : bits) hash = mix(hash, word);
  const auto [first, last] = sets_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (std::equal(bits.begin(), bits.end(), sets_.begin() + static_cast<ptrdiff_t>(at->second * words_per_set_)))
      return intern({Kind::kSet, false, at->second});
  const uint32_t index = static_cast<uint32_t>(sets_.size() / words_per_set_);
  sets_.insert(sets_.end(), bits.begin(), bits.end());
  sets_by_hash_.emplace(hash, index);
  return intern({Kind::kSet, false, index});
}

ExprId ExpressionPool::character(uint32_t code_point) { return set(CodePointSet::of(code_point)); }

ExprId ExpressionPool::literal(std::string_view utf8) {
  std::vector<ExprId> characters;
  while (!utf8.empty()) {
    const Utf8Char c = decode_utf8(utf8);
    if (c.code_point == kInvalidByte) return kNothing;
    characters.push_back(character(c.code_point));
    utf8.remove_prefix(c.size);
  }
  ExprId e = kEmpty;
  for (auto at = characters.rbegin(); at != characters.rend(); ++at) e = concat(*at, e);
  return e;
}

ExprId ExpressionPool::literals(std::vector<std::string_view> texts) {
  std::sort(texts.begin(), texts.end());
  // The path from the root of the trie to the most recent text. Entry i contains the alternatives that are already
  // complete for the node after i characters. Nodes are created from the leaves up, so equal suffixes become the same
  // node.
  std::vector<std::vector<ExprId>> path(1);
  std::vector<uint32_t> last, characters;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      const ExprId rest = either(std::move(path.back()));
      path.pop_back();
      path.back().push_back(concat(character(last[path.size() - 1]), rest));
    }
  };
  for (const std::string_view text : texts) {
    characters.clear();
    bool valid = true;
    for (std::string_view left = text; valid && !left.empty();) {
      const Utf8Char c = decode_utf8(left);
      valid = c.code_point != kInvalidByte;
      characters.push_back(c.code_point);
      left.remove_prefix(c.size);
    }
    if (!valid) continue;
    const auto [end, ignored] = std::ranges::mismatch(characters, last);
    close(static_cast<size_t>(end - characters.begin()));
    path.resize(characters.size() + 1);
    path.back().push_back(kEmpty);
    last.swap(characters);
  }
  close(0);
  return either(std::move(path.front()));
}

ExprId ExpressionPool::concat(ExprId first, ExprId then) {
  if (first == kNothing || then == kNothing) return kNothing;
  if (first == kEmpty) return then;
  if (then == kEmpty) return first;
  // Makes the chain right-associative. The function is not recursive, because a chain of concatenations may be long.
  std::vector<ExprId> parts;
  while (nodes_[first].kind == Kind::kConcat) {
    parts.push_back(nodes_[first].a);
    first = nodes_[first].b;
  }
  parts.push_back(first);
  ExprId e = then;
  for (auto at = parts.rbegin(); at != parts.rend(); ++at) {
    if (*at == kAnything) {
      if (e == kAnything) continue;
      if (nodes_[e].kind == Kind::kConcat && nodes_[e].a == kAnything) continue;
    }
    // x*x* equals x*.
    if (repeats_for_ever(*at) && (e == *at || (nodes_[e].kind == Kind::kConcat && nodes_[e].a == *at))) continue;
    e = intern({Kind::kConcat, nodes_[*at].nullable && nodes_[e].nullable, *at, e});
    if (e == kNothing) return kNothing;
  }
  return e;
}

ExprId ExpressionPool::negate(ExprId a) {
  if (a == kNothing) return kAnything;
  if (a == kAnything) return kNothing;
  if (nodes_[a].kind == Kind::kNegate) return nodes_[a].a;
  return intern({Kind::kNegate, !nodes_[a].nullable, a});
}

ExprId ExpressionPool::repeat(ExprId a, uint32_t least, uint32_t most) {
  if (most == 0 || a == kEmpty) return kEmpty;
  if (a == kNothing) return least == 0 ? kEmpty : kNothing;
  if (a == kAnything) return kAnything;
  if (nodes_[a].nullable) least = 0;
  if (least == 1 && most == 1) return a;
  if (least == 0 && most == kUnbounded) {
    const Node& node = nodes_[a];
    if (node.kind == Kind::kRepeat && node.b <= 1) return repeat(node.a, 0, kUnbounded);
    if (node.kind == Kind::kSet) {
      bool whole = true;
      for (CharClassId c = 0; whole && c < partition_.n_classes(); ++c)
        whole = set_has(node.a, c) || (partition_.example(c) >= 0xD800 && partition_.example(c) <= 0xDFFF);
      if (whole) return kAnything;
    }
  }
  // x{b,c}{l,m} equals x{lb,mc} if the resulting counts have no gaps. For example, (x{1,3}){1,3} is x{1,9}.
  if (const Node node = nodes_[a]; node.kind == Kind::kRepeat) {
    const uint64_t l = least, b = node.b, c = node.c;
    const bool gapless = node.c == kUnbounded ? (l > 0 || b <= 1) : l * (c - b) + 1 >= b;
    const bool unbounded = most == kUnbounded || node.c == kUnbounded;
    if (gapless && l * b < kUnbounded && (unbounded || uint64_t{most} * c < kUnbounded))
      return repeat(node.a, static_cast<uint32_t>(l * b), unbounded ? kUnbounded : most * node.c);
  }
  return intern({Kind::kRepeat, least == 0, a, least, most});
}

ExprId ExpressionPool::remainder(uint32_t modulus, uint32_t value) {
  return intern({Kind::kRemainder, value == 0, modulus, value});
}

// ---- Rules ----

ExprId ExpressionPool::rule(uint32_t index, bool nullable) {
  if (definitions_.size() <= index) definitions_.resize(index + 1, kNothing);
  return intern({Kind::kRule, nullable, index});
}

void ExpressionPool::define(uint32_t index, ExprId definition) {
  if (definitions_.size() <= index) definitions_.resize(index + 1, kNothing);
  definitions_[index] = definition;
}

ExprId ExpressionPool::non_empty(ExprId rule) {
  return nodes_[rule].nullable ? intern({Kind::kNonEmpty, false, rule}) : rule;
}

ExprId ExpressionPool::tag(uint32_t value) { return intern({Kind::kTag, true, value}); }

}  // namespace monolith::grammar
