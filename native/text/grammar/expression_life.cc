// Decides whether an expression matches any text, by search or by arithmetic. The automaton never enters a state whose
// expression matches no text.
#include "text/grammar/expression.h"

#include <algorithm>

namespace monolith::grammar {

bool ExpressionPool::alive(ExprId e) {
  if (life_[e] != Life::kUnknown) return life_[e] == Life::kAlive;
  const auto known = [&](ExprId id) {
    if (life_[id] == Life::kUnknown) life_[id] = life_at_once(id);
    return life_[id];
  };
  if (known(e) != Life::kUnknown) return life_[e] == Life::kAlive;
  if (!definitions_.empty() && completes_shortly(e)) return true;
  if (failed()) return false;
  // A search that ran out of fuel resumes where it stopped.
  Search search{e, {{e, 0}}, {e}, {e}};
  const auto kept = std::ranges::find(searches_, e, &Search::root);
  if (kept != searches_.end()) {
    search = std::move(*kept);
    searches_.erase(kept);
  }
  const auto stop = [&] {
    run_dry();
    if (spent()) {
      if (searches_.size() == kMaxSearches) searches_.erase(searches_.begin());
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
  // The search has visited all reachable expressions, so none of them leads to a match.
  for (const ExprId id : search.seen) life_[id] = Life::kDead;
  return false;
}

// Counts matching strings by length. Different paths spell different strings, so each path that can be completed counts
// as one string. A path longer than the number of expressions has visited some expression twice, which means that
// infinitely many strings match.
uint64_t ExpressionPool::count(ExprId e, uint64_t enough) {
  // The expressions that are reached by paths of the current length, each with the number of these paths.
  std::unordered_map<ExprId, uint64_t> ends;
  if (enough > 0 && alive(e)) ends.emplace(e, 1);
  std::unordered_set<ExprId> met{e};
  uint64_t texts = 0;
  for (size_t length = 0; !ends.empty(); ++length) {
    if (length >= met.size()) return enough;
    std::unordered_map<ExprId, uint64_t> longer;
    uint64_t ways = 0;
    for (const auto& [end, n] : ends)
      if (nodes_[end].nullable) texts += n;
    for (const auto& [end, n] : ends)
      for (size_t c = 0; c < partition_.n_classes() && texts + ways < enough; ++c) {
        const ExprId to = derivative(end, static_cast<CharClassId>(c));
        if (!failed() && !fuel_.spend()) run_dry();
        const bool leads = !failed() && alive(to);
        if (failed()) return enough;
        const uint64_t here = leads ? n * partition_.size(static_cast<CharClassId>(c)) : 0;
        if (here > 0) longer[to] += here, met.insert(to);
        ways += here;
      }
    if (texts + ways >= enough) return enough;
    ends = std::move(longer);
  }
  return texts;
}

// Decides without a search where possible. For multiples of a number within bounds, a search would visit too many
// states, but arithmetic on digit counts is enough.
ExpressionPool::Life ExpressionPool::life_at_once(ExprId e) const {
  const Node& node = nodes_[e];
  if (node.kind == Kind::kConcat)
    return life_[node.a] == Life::kAlive && nodes_[node.b].nullable ? Life::kAlive : Life::kUnknown;
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
  if (std::ranges::any_of(counts, [&](const DigitCount& count) { return digits_reach(count, *multiple); }))
    return Life::kAlive;
  return exact ? Life::kDead : Life::kUnknown;
}

// Returns the ranges of lengths at which every part of the intersection accepts all digit strings. `exact` becomes
// false if some part also matches other strings.
std::vector<ExpressionPool::DigitCount> ExpressionPool::count_digits(std::span<const ExprId> parts, int depth,
                                                                     bool& exact) const {
  std::vector<DigitCount> counts{{0, kUnbounded}}, both;
  for (const ExprId part : parts) {
    const std::vector<DigitCount> of_part = count_digits(part, depth, exact);
    both.clear();
    for (const DigitCount& one : counts)
      for (const DigitCount& other : of_part)
        if (const DigitCount common{std::max(one.least, other.least), std::min(one.most, other.most)};
            common.least <= common.most)
          both.push_back(common);
    if (both.size() > kMaxCounts) both.resize(kMaxCounts), exact = false;
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
      if (all.size() < kMaxCounts)
        all.insert(all.end(), of_way.begin(), of_way.end());
      else
        exact = false;
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

// Returns true only if a cheap check proves that no matching text starts with a digit.
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
    case Kind::kEither:
      return std::ranges::all_of(
          list(node), [&](ExprId way) { return nodes_[way].kind != Kind::kEither && begins_without_digit(way); });
    default: return false;
  }
}

// Returns whether appending `count` digits can make the remainder 0.
bool ExpressionPool::digits_reach(const DigitCount& count, const Node& remainder) const {
  const uint64_t modulus = remainder.a;
  uint64_t value = remainder.b, reach = 1;  // After n digits, the remainder is `value` plus any number below `reach`.
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

}  // namespace monolith::grammar
