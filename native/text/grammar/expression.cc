#include "text/grammar/expression.h"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "text/grammar/mix.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

constexpr int kDeepest = 128;   // derivatives on the thread's stack; deeper ones on a stack of their own

}  // namespace

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
  // Without intersection and complement nothing that is built here is empty: the constructors see to it.
  bool plain = node.kind != Kind::kBoth && node.kind != Kind::kNegate;
  switch (node.kind) {
    case Kind::kConcat: plain = life_[node.a] == Life::kAlive && life_[node.b] == Life::kAlive; break;
    case Kind::kRepeat: plain = node.b == 0 || life_[node.a] == Life::kAlive; break;
    case Kind::kEither: plain = std::ranges::any_of(list, [&](uint32_t child) { return life_[child] == Life::kAlive; }); break;
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
    partition_.for_each_class(range.first, range.last, [&](CharClassId c) { bits[c / 64] |= uint64_t{1} << (c % 64); });
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

ExprId ExpressionPool::concat(ExprId first, ExprId then) {
  if (first == kNothing || then == kNothing) return kNothing;
  if (first == kEmpty) return then;
  if (then == kEmpty) return first;
  // To the right, without recursion: a chain of concatenations may be long.
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
    // x*x* is x*.
    if (repeats_for_ever(*at) && (e == *at || (nodes_[e].kind == Kind::kConcat && nodes_[e].a == *at))) continue;
    e = intern({Kind::kConcat, nodes_[*at].nullable && nodes_[e].nullable, *at, e});
    if (e == kNothing) return kNothing;
  }
  return e;
}

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
  // Sets become one set.
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
  // The empty text adds nothing to what accepts it already.
  if (flat.size() > 1 && flat.front() == kEmpty) {
    const bool covered = std::any_of(flat.begin() + 1, flat.end(), [&](ExprId e) { return nodes_[e].nullable && nodes_[e].kind != Kind::kTag; });
    if (covered) flat.erase(flat.begin());
  }
  if (!definitions_.empty()) drop_covered(flat);
  if (flat.size() > 1) drop_narrower(flat);
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat.front();
  const bool nullable = std::any_of(flat.begin(), flat.end(), [&](ExprId e) { return nodes_[e].nullable; });
  return intern({Kind::kEither, nullable}, flat);
}

// What follows something that may be empty is among what that begins: of xy|y, where x may be empty, y goes. Rules that
// may be read in many ways would pile up such alternatives. `ways` are sorted.
void ExpressionPool::drop_covered(std::vector<ExprId>& ways) {
  if (ways.size() < 2) return;
  std::vector<ExprId> covered;
  for (const ExprId way : ways) {
    for (ExprId at = way; nodes_[at].kind == Kind::kConcat && nodes_[nodes_[at].a].nullable;) {
      at = nodes_[at].b;
      if (!fuel_.spend()) return;
      if (!std::binary_search(ways.begin(), ways.end(), at)) continue;
      if (free_characters(at) == 0) covered.push_back(at);
      break;   // what follows in it is looked at when its turn comes
    }
  }
  std::sort(covered.begin(), covered.end());
  if (!covered.empty()) std::erase_if(ways, [&](ExprId way) { return std::binary_search(covered.begin(), covered.end(), way); });
}

// Of what is repeated or begins so, every way whose counts lie within another's goes: counts within counts would else
// pile up by their product.
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
    for (end = first + 1; end < by_repeated.size() && by_repeated[end].first == by_repeated[first].first; ++end) continue;
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

// Seen at once: every text of `narrow` is one of `wide`, which is another expression.
bool ExpressionPool::covers(ExprId wide, ExprId narrow) const {
  for (;;) {
    if (wide == narrow) return true;
    const Node &a = nodes_[wide], &b = nodes_[narrow];
    if (a.kind == Kind::kRepeat && b.kind == Kind::kRepeat) return a.a == b.a && a.b <= b.b && a.c >= b.c;
    if (a.kind != Kind::kConcat || b.kind != Kind::kConcat) return false;
    if (a.a != b.a) {
      const Node &head = nodes_[a.a], &of_narrow = nodes_[b.a];
      if (head.kind != Kind::kRepeat || of_narrow.kind != Kind::kRepeat || head.a != of_narrow.a || head.b > of_narrow.b || head.c < of_narrow.c) return false;
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
  // x{a,b} and x{c,d} of a character are counted together.
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
      for (CharClassId c = 0; whole && c < partition_.n_classes(); ++c) whole = set_has(node.a, c) || (partition_.example(c) >= 0xD800 && partition_.example(c) <= 0xDFFF);
      if (whole) return kAnything;
    }
  }
  // x{b,c}{l,m} is x{lb,mc} where the counts leave no gap: (x{1,3}){1,3} is x{1,9}.
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

// ---- rules ----

ExprId ExpressionPool::rule(uint32_t index, bool nullable) {
  if (definitions_.size() <= index) definitions_.resize(index + 1, kNothing);
  return intern({Kind::kRule, nullable, index});
}

void ExpressionPool::define(uint32_t index, ExprId definition) {
  if (definitions_.size() <= index) definitions_.resize(index + 1, kNothing);
  definitions_[index] = definition;
}

ExprId ExpressionPool::non_empty(ExprId rule) { return nodes_[rule].nullable ? intern({Kind::kNonEmpty, false, rule}) : rule; }

void ExpressionPool::beginnings(ExprId e, bool rests, std::vector<Beginning>& out) {
  const auto behind = [&](ExprId then, ExprId rest) { return rests ? concat(then, rest) : kEmpty; };
  std::vector<Beginning> open{{e, kEmpty}};
  while (!open.empty() && !failed()) {
    const Beginning now = open.back();
    open.pop_back();
    if (!fuel_.spend()) run_dry();
    const Node node = nodes_[now.first];   // a copy: nodes_ may grow
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
        open.push_back({node.a, behind(repeat(node.a, node.b == 0 ? 0 : node.b - 1, node.c == kUnbounded ? kUnbounded : node.c - 1), now.rest)});
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

ExprId ExpressionPool::tag(uint32_t value) { return intern({Kind::kTag, true, value}); }

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

// The same, what it needs first: what is to come of a text that nests as rules do may nest as deep as the text.
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
  const Node node = nodes_[e];   // a copy: nodes_ may grow
  switch (node.kind) {
    case Kind::kNothing:
    case Kind::kEmpty:
    case Kind::kTag: return kNothing;
    case Kind::kAnything: return kAnything;
    case Kind::kSet: return set_has(node.a, c) ? kEmpty : kNothing;
    case Kind::kConcat: {
      // Along a chain whose parts may be empty, each may be the one that takes the character.
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

bool ExpressionPool::alive(ExprId e) {
  if (life_[e] != Life::kUnknown) return life_[e] == Life::kAlive;
  const auto known = [&](ExprId id) {
    if (life_[id] == Life::kUnknown) life_[id] = life_at_once(id);
    return life_[id];
  };
  if (known(e) != Life::kUnknown) return life_[e] == Life::kAlive;
  // One that ran out of fuel goes on where it was.
  Search search{e, {{e, 0}}, {e}, {e}};
  const auto kept = std::ranges::find(searches_, e, &Search::root);
  if (kept != searches_.end()) {
    search = std::move(*kept);
    searches_.erase(kept);
  }
  const auto stop = [&] {
    run_dry();
    if (spent()) {
      if (searches_.size() == kMostSearches) searches_.erase(searches_.begin());
      searches_.push_back(std::move(search));
    }
    return false;
  };
  const size_t n_classes = partition_.n_classes();
  while (!search.path.empty()) {
    Search::Step& step = search.path.back();
    if (step.next == n_classes) {
      search.path.pop_back();
      continue;
    }
    const ExprId to = derivative(step.at, step.next);
    if (failed() || !fuel_.spend()) return stop();
    ++step.next;
    const Life life = known(to);
    if (life == Life::kDead || (life == Life::kUnknown && !search.visited.insert(to).second)) continue;
    if (life == Life::kAlive || nodes_[to].nullable) {
      life_[to] = Life::kAlive;
      for (const Search::Step& on : search.path) life_[on.at] = Life::kAlive;
      return true;
    }
    search.seen.push_back(to);
    search.path.push_back({to, 0});
  }
  for (const ExprId id : search.seen) life_[id] = Life::kDead;   // none of them leads anywhere
  return false;
}

// Where no search is needed: multiples within bounds are too many states to walk through, and arithmetic tells.
ExpressionPool::Life ExpressionPool::life_at_once(ExprId e) const {
  const Node& node = nodes_[e];
  if (node.kind == Kind::kConcat) return life_[node.a] == Life::kAlive && nodes_[node.b].nullable ? Life::kAlive : Life::kUnknown;
  if (node.kind != Kind::kBoth) return Life::kUnknown;
  const Node* multiple = nullptr;
  bool exact = true;
  std::vector<ExprId> others;
  for (const ExprId part : list(node)) {
    const bool goes_on = nodes_[part].kind == Kind::kConcat && nodes_[nodes_[part].b].nullable;
    const Node& first = nodes_[goes_on ? nodes_[part].a : part];
    if (first.kind != Kind::kRemainder || multiple != nullptr) {
      others.push_back(part);
    } else {
      multiple = &first;
      exact = !goes_on || begins_without_digit(nodes_[part].b);
    }
  }
  if (multiple == nullptr) return Life::kUnknown;
  const std::vector<DigitCount> counts = count_digits(others, 0, exact);
  if (std::ranges::any_of(counts, [&](const DigitCount& count) { return digits_reach(count, *multiple); })) return Life::kAlive;
  return exact ? Life::kDead : Life::kUnknown;
}

// How many digits all of the parts take, whatever the digits are; not `exact`: some take other texts, too.
std::vector<ExpressionPool::DigitCount> ExpressionPool::count_digits(std::span<const ExprId> parts, int depth, bool& exact) const {
  std::vector<DigitCount> counts{{0, kUnbounded}}, both;
  for (const ExprId part : parts) {
    const std::vector<DigitCount> of_part = count_digits(part, depth, exact);
    both.clear();
    for (const DigitCount& one : counts)
      for (const DigitCount& other : of_part)
        if (const DigitCount common{std::max(one.least, other.least), std::min(one.most, other.most)}; common.least <= common.most) both.push_back(common);
    if (both.size() > kMostCounts) both.resize(kMostCounts), exact = false;
    counts.swap(both);
  }
  return counts;
}

std::vector<ExpressionPool::DigitCount> ExpressionPool::count_digits(ExprId e, int depth, bool& exact) const {
  constexpr int kDeep = 6;
  const Node& node = nodes_[e];
  if (e == kEmpty) return {{0, 0}};
  if (takes_every_digit(e)) return {{1, 1}};
  if (node.kind == Kind::kRepeat && takes_every_digit(node.a)) return {{node.b, node.c}};
  if (depth < kDeep && node.kind == Kind::kBoth) return count_digits(list(node), depth + 1, exact);
  if (depth < kDeep && node.kind == Kind::kEither) {
    std::vector<DigitCount> all;
    for (const ExprId way : list(node)) {
      const std::vector<DigitCount> of_way = count_digits(way, depth + 1, exact);
      if (all.size() < kMostCounts) all.insert(all.end(), of_way.begin(), of_way.end());
      else exact = false;
    }
    return all;
  }
  if (depth < kDeep && node.kind == Kind::kConcat && nodes_[node.b].nullable) {
    exact = exact && begins_without_digit(node.b);
    return count_digits(node.a, depth + 1, exact);
  }
  exact = false;
  return {};
}

// Seen at once: no text of it begins with a digit.
bool ExpressionPool::begins_without_digit(ExprId e) const {
  const Node& node = nodes_[e];
  switch (node.kind) {
    case Kind::kEmpty: return true;
    case Kind::kSet:
      for (uint32_t digit = '0'; digit <= '9'; ++digit)
        if (set_has(node.a, partition_.class_of(digit))) return false;
      return true;
    case Kind::kConcat: return !nodes_[node.a].nullable && begins_without_digit(node.a);
    case Kind::kRepeat: return nodes_[node.a].kind == Kind::kSet && begins_without_digit(node.a);
    case Kind::kEither: return std::ranges::all_of(list(node), [&](ExprId way) { return nodes_[way].kind != Kind::kEither && begins_without_digit(way); });
    default: return false;
  }
}

// Whether so many more digits can make the remainder 0.
bool ExpressionPool::digits_reach(const DigitCount& count, const Node& remainder) const {
  const uint64_t modulus = remainder.a;
  uint64_t value = remainder.b, reach = 1;   // behind n digits: to value, whatever is below reach may be added
  for (uint32_t n = 0; n <= count.most; ++n) {
    if (n >= count.least && (value == 0 || reach >= modulus || modulus - value < reach)) return true;
    value = value * 10 % modulus;
    reach = std::min(reach * 10, modulus);
  }
  return false;
}

bool ExpressionPool::takes_every_digit(ExprId e) const {
  if (nodes_[e].kind != Kind::kSet) return false;
  for (uint32_t digit = '0'; digit <= '9'; ++digit)
    if (!set_has(nodes_[e].a, partition_.class_of(digit))) return false;
  return true;
}

void ExpressionPool::keep(size_t most_nodes) {
  kept_nodes_ = nodes_.size();
  kept_lists_ = lists_.size();
  kept_sets_ = sets_.size();
  most_nodes_ = kept_nodes_ + kept_lists_ / 8 + most_nodes;
  derivatives_ = {};
  searches_.clear();
}

void ExpressionPool::forget() {
  std::erase_if(by_hash_, [&](const auto& entry) { return entry.second >= kept_nodes_; });
  std::erase_if(sets_by_hash_, [&](const auto& entry) { return entry.second * words_per_set_ >= kept_sets_; });
  nodes_.resize(kept_nodes_, Node{Kind::kNothing, false});
  life_.resize(kept_nodes_);
  lists_.resize(kept_lists_);
  sets_.resize(kept_sets_);
  derivatives_ = {};
  searches_.clear();
  halt_ = Halt::kNone;
}

std::unique_ptr<ExpressionPool::Past> ExpressionPool::forget_into_past() {
  auto past = std::make_unique<Past>();
  past->first_node = kept_nodes_;
  past->first_list = kept_lists_;
  past->first_set = kept_sets_;
  const auto behind = [](const auto& all, size_t kept) { return std::remove_cvref_t<decltype(all)>(all.begin() + static_cast<ptrdiff_t>(kept), all.end()); };
  past->nodes = behind(nodes_, kept_nodes_);
  past->life = behind(life_, kept_nodes_);
  past->lists = behind(lists_, kept_lists_);
  past->sets = behind(sets_, kept_sets_);
  forget();
  return past;
}

// What it is made of first, from a stack of its own: an expression may nest as deep as a text. Parts come before what
// is made of them, in the order of their numbers.
ExprId ExpressionPool::recall(Past& past, ExprId wanted) {
  const auto of_now = [&](ExprId e) { return e < past.first_node ? e : past.recalled.at(e); };
  const auto is_known = [&](ExprId e) { return e < past.first_node || past.recalled.contains(e); };
  const auto list_of = [&](const Node& node, std::vector<ExprId>& parts) {
    parts.clear();
    for (uint32_t i = node.a; i < node.b; ++i) parts.push_back(i < past.first_list ? lists_[i] : past.lists[i - past.first_list]);
  };
  std::vector<ExprId> open{wanted}, needed, parts;
  std::unordered_set<ExprId> seen;
  while (!open.empty()) {
    const ExprId e = open.back();
    open.pop_back();
    if (is_known(e) || !seen.insert(e).second) continue;
    needed.push_back(e);
    const Node& node = past.nodes[e - past.first_node];
    switch (node.kind) {
      case Kind::kConcat: open.push_back(node.a), open.push_back(node.b); break;
      case Kind::kEither:
      case Kind::kBoth: list_of(node, parts), open.insert(open.end(), parts.begin(), parts.end()); break;
      case Kind::kNegate:
      case Kind::kRepeat:
      case Kind::kNonEmpty: open.push_back(node.a); break;
      default: break;
    }
  }
  std::sort(needed.begin(), needed.end());
  for (const ExprId e : needed) {
    const Node& node = past.nodes[e - past.first_node];
    ExprId now = kNothing;
    switch (node.kind) {
      case Kind::kSet: {
        const size_t first = node.a * words_per_set_;
        std::vector<uint64_t> bits(words_per_set_);
        for (size_t w = 0; w < words_per_set_; ++w) bits[w] = first + w < past.first_set ? sets_[first + w] : past.sets[first + w - past.first_set];
        now = set_of_classes(bits);
        break;
      }
      case Kind::kConcat: now = concat(of_now(node.a), of_now(node.b)); break;
      case Kind::kEither:
      case Kind::kBoth: {
        list_of(node, parts);
        for (ExprId& part : parts) part = of_now(part);
        now = node.kind == Kind::kEither ? either(parts) : both(parts);
        break;
      }
      case Kind::kNegate: now = negate(of_now(node.a)); break;
      case Kind::kRepeat: now = repeat(of_now(node.a), node.b, node.c); break;
      case Kind::kNonEmpty: now = non_empty(of_now(node.a)); break;
      default: now = intern(node); break;
    }
    if (failed()) return kFailed;
    if (const Life life = past.life[e - past.first_node]; life != Life::kUnknown && life_[now] == Life::kUnknown) life_[now] = life;
    past.recalled.emplace(e, now);
  }
  return of_now(wanted);
}

size_t ExpressionPool::bytes() const {
  constexpr size_t kEntry = 48;   // of a hash table
  return nodes_.size() * (sizeof(Node) + 1 + kEntry) + lists_.size() * 4 + sets_.size() * 8 + sets_by_hash_.size() * kEntry +
         derivatives_.size() * kEntry + definitions_.size() * 4;
}

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

void ExpressionPool::tags(ExprId e, std::vector<uint32_t>& out) const {
  out.clear();
  std::vector<ExprId> open{e};
  while (!open.empty()) {
    const Node& node = nodes_[open.back()];
    open.pop_back();
    if (!node.nullable) continue;
    switch (node.kind) {
      case Kind::kTag: out.push_back(node.a); break;
      case Kind::kEither: for (const uint32_t child : list(node)) open.push_back(child); break;
      case Kind::kConcat: open.push_back(node.b); break;   // a tag stands last
      default: break;
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

}  // namespace monolith::grammar
