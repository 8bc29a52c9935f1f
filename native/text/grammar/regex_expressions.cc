// Converts parsed patterns to expressions.
#include "text/grammar/regex.h"

namespace monolith::grammar {

size_t Regex::n_ranges() const {
  size_t n = 0;
  for (const CodePointSet& set : sets_) n += set.ranges().size();
  return n;
}

void Regex::separate(CharPartition& partition) const {
  for (const CodePointSet& set : sets_) {
    const auto ranges = set.ranges();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].last)
      partition.separate(ranges[0].first);
    else
      partition.separate(set);
  }
}

ExprId Regex::found_in(ExpressionPool& pool) const {
  const ExprId from_start = build(pool, root_, ExpressionPool::kAnything, true);
  if (!nodes_[root_].asserts) return pool.concat(ExpressionPool::kAnything, from_start);
  return pool.either(from_start,
                     pool.concat(ExpressionPool::kAnything, build(pool, root_, ExpressionPool::kAnything, false)));
}

ExprId Regex::whole(ExpressionPool& pool) const { return build(pool, root_, ExpressionPool::kEmpty, true); }

// Returns the expression for a match of the node `index`, followed by text that matches `rest` as a whole.
ExprId Regex::build(ExpressionPool& pool, uint32_t index, ExprId rest, bool at_start) const {
  const Node& node = nodes_[index];
  if (!node.asserts) return pool.concat(plain(pool, index), rest);
  switch (node.kind) {
    case Kind::kStart: return at_start ? rest : ExpressionPool::kNothing;
    case Kind::kEnd: return pool.both(rest, ExpressionPool::kEmpty);
    case Kind::kAhead: return pool.both(build(pool, node.a, ExpressionPool::kAnything, at_start), rest);
    case Kind::kNotAhead: return pool.both(pool.negate(build(pool, node.a, ExpressionPool::kAnything, at_start)), rest);
    case Kind::kEither: {
      std::vector<ExprId> ways;
      for (uint32_t i = node.a; i < node.b; ++i) ways.push_back(build(pool, children_[i], rest, at_start));
      return pool.either(std::move(ways));
    }
    case Kind::kConcat: {
      // An element is at the start of the text only if all elements before it are assertions.
      uint32_t first_real = node.a;
      while (
          first_real < node.b && nodes_[children_[first_real]].kind != Kind::kSet &&
          (nodes_[children_[first_real]].kind == Kind::kStart || nodes_[children_[first_real]].kind == Kind::kAhead ||
           nodes_[children_[first_real]].kind == Kind::kNotAhead || nodes_[children_[first_real]].kind == Kind::kEmpty))
        ++first_real;
      ExprId e = rest;
      for (uint32_t i = node.b; i-- > node.a;) e = build(pool, children_[i], e, at_start && i <= first_real);
      return e;
    }
    case Kind::kRepeat:
      // Assertions inside a repetition are supported only if the maximum count is 1.
      if (node.b == 0 && node.c == 1) return pool.either(build(pool, node.a, rest, at_start), rest);
      if (node.b == 1 && node.c == 1) return build(pool, node.a, rest, at_start);
      return ExpressionPool::kNothing;
    default: return ExpressionPool::kNothing;
  }
}

ExprId Regex::plain(ExpressionPool& pool, uint32_t index) const {
  const Node& node = nodes_[index];
  switch (node.kind) {
    case Kind::kSet: return pool.set(sets_[node.a]);
    case Kind::kConcat: {
      ExprId e = ExpressionPool::kEmpty;
      for (uint32_t i = node.b; i-- > node.a;) e = pool.concat(plain(pool, children_[i]), e);
      return e;
    }
    case Kind::kEither: {
      std::vector<ExprId> ways;
      for (uint32_t i = node.a; i < node.b; ++i) ways.push_back(plain(pool, children_[i]));
      return pool.either(std::move(ways));
    }
    case Kind::kRepeat: return pool.repeat(plain(pool, node.a), node.b, node.c);
    default: return ExpressionPool::kEmpty;
  }
}

}  // namespace monolith::grammar
