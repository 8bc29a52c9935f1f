// Converts rules to expressions in five steps, none of which is recursive:
// - find the rules that are reachable from root, and order them so that each rule comes after the rules that it uses
// - convert the regular expressions
// - determine which rules match any string at all, the empty string, and non-empty strings
// - convert each definition to an expression
// - eliminate left recursion (see solve())
#include "text/grammar/rule_expressions.h"

#include <algorithm>
#include <deque>

namespace monolith::grammar {
namespace {

using Kind = RuleTree::Kind;
constexpr uint32_t kNone = UINT32_MAX;

// The kinds of strings that an expression matches: the empty string, non-empty strings, both or neither.
struct Texts {
  bool empty = false, longer = false;
  bool any() const { return empty || longer; }
  bool operator==(const Texts&) const = default;
};

class RuleBuilder {
 public:
  RuleBuilder(const RuleTree& tree, ExpressionPool& pool, std::string& problem)
      : tree_(tree), pool_(pool), problem_(problem) {}

  ExprId run() {
    reach();
    convert_regexes();
    find_texts();
    if (pool_.failed()) return ExpressionPool::kNothing;
    if (!rule_texts_[tree_.root].any()) return explain();
    expressions_.resize(tree_.nodes.size(), ExpressionPool::kNothing);
    for (const uint32_t rule : reached_) define(rule);
    if (!pool_.failed()) solve_all();
    return pool_.failed() ? ExpressionPool::kNothing : reference(tree_.root);
  }

 private:
  bool spend(size_t steps) {
    if (pool_.failed()) return false;
    if (pool_.fuel().spend(steps)) return true;
    pool_.give_up();
    return false;
  }

  template <typename Visit>
  void for_each_reference(uint32_t rule, Visit&& visit) const {
    for (uint32_t node = tree_.rules[rule].first; node <= tree_.rules[rule].root; ++node)
      if (tree_.nodes[node].kind == Kind::kRule) visit(tree_.nodes[node].a);
  }

  // Fills reached_. Each rule comes after the rules that it uses, except where rules use each other recursively.
  void reach() {
    struct Step {
      uint32_t rule, node;
    };
    std::vector<bool> seen(tree_.rules.size());
    seen[tree_.root] = true;
    std::vector<Step> path{{tree_.root, tree_.rules[tree_.root].first}};
    while (!path.empty()) {
      Step& step = path.back();
      const uint32_t rule = step.rule;
      uint32_t next = kNone;
      while (next == kNone && step.node <= tree_.rules[rule].root) {
        const RuleTree::Node& node = tree_.nodes[step.node++];
        if (node.kind == Kind::kRule && !seen[node.a]) next = node.a;
      }
      if (next == kNone) {
        reached_.push_back(rule);
        path.pop_back();
      } else {
        seen[next] = true;
        path.push_back({next, tree_.rules[next].first});
      }
    }
  }

  // A regular expression may contain an empty character class, so a search is needed to determine whether it matches
  // any non-empty text.
  void convert_regexes() {
    const ExprId some = pool_.repeat(pool_.set(CodePointSet::all()), 1, kUnbounded);
    for (const Regex& regex : tree_.regexes) {
      const ExprId e = regex.whole(pool_);
      regexes_.push_back({e, {pool_.nullable(e), pool_.alive(pool_.both(e, some))}});
    }
  }

  // Computes the kinds of strings that each rule matches as a least fixed point: a rule is recomputed whenever the
  // result of a rule that it uses has changed.
  void find_texts() {
    rule_texts_.resize(tree_.rules.size());
    texts_.resize(tree_.nodes.size());
    std::vector<std::vector<uint32_t>> users(tree_.rules.size());
    for (const uint32_t rule : reached_)
      for_each_reference(rule, [&](uint32_t used) {
        if (users[used].empty() || users[used].back() != rule) users[used].push_back(rule);
      });
    std::deque<uint32_t> open(reached_.begin(), reached_.end());
    std::vector<bool> waits(tree_.rules.size(), true);
    while (!open.empty()) {
      const uint32_t rule = open.front();
      open.pop_front();
      waits[rule] = false;
      const auto [name, at, first, root, defined] = tree_.rules[rule];
      if (!spend(1 + (root - first) / 8)) return;
      for (uint32_t node = first; node <= root; ++node) texts_[node] = texts_of(tree_.nodes[node]);
      if (texts_[root] == rule_texts_[rule]) continue;
      rule_texts_[rule] = texts_[root];
      for (const uint32_t user : users[rule]) {
        if (waits[user]) continue;
        waits[user] = true;
        open.push_back(user);
      }
    }
  }

  Texts texts_of(const RuleTree::Node& node) const {
    switch (node.kind) {
      case Kind::kEmpty: return {true, false};
      case Kind::kLiteral: return {tree_.literals[node.a].empty(), !tree_.literals[node.a].empty()};
      case Kind::kSet: return {false, !tree_.sets[node.a].empty()};
      case Kind::kRegex: return regexes_[node.a].texts;
      case Kind::kRule: return rule_texts_[node.a];
      case Kind::kRepeat: {
        const Texts one = texts_[node.a];
        return {node.b == 0 || one.empty, node.c > 0 && one.longer};
      }
      case Kind::kConcat: {
        Texts all{true, false};
        for (uint32_t i = node.a; i < node.b; ++i) {
          const Texts part = texts_[tree_.children[i]];
          if (!part.any()) return {};
          all.empty = all.empty && part.empty;
          all.longer = all.longer || part.longer;
        }
        return all;
      }
      case Kind::kEither: {
        Texts any;
        for (uint32_t i = node.a; i < node.b; ++i) {
          any.empty = any.empty || texts_[tree_.children[i]].empty;
          any.longer = any.longer || texts_[tree_.children[i]].longer;
        }
        return any;
      }
    }
    return {};
  }

  // Explains why root matches no text: either a rule recurses endlessly or a class contains no characters.
  ExprId explain() {
    std::vector<bool> seen(tree_.rules.size());
    uint32_t rule = tree_.root, next = rule;
    while (next != kNone && !seen[next]) {
      rule = next;
      seen[rule] = true;
      next = kNone;
      for_each_reference(rule, [&](uint32_t used) {
        if (!rule_texts_[used].any()) next = used;
      });
    }
    problem_ = "no text matches: the rule \"" + tree_.rules[next == kNone ? rule : next].name + "\" " +
               (next == kNone ? "has an empty character class" : "recurses without end");
    return ExpressionPool::kNothing;
  }

  ExprId reference(uint32_t rule) {
    const Texts texts = rule_texts_[rule];
    if (!texts.longer) return texts.empty ? ExpressionPool::kEmpty : ExpressionPool::kNothing;
    const ExprId known = pool_.n_rules() > rule ? pool_.definition(rule) : ExpressionPool::kNothing;
    // Single-character rules are inlined so that alternatives consisting of them merge into one set.
    return pool_.is_set(known) ? known : pool_.rule(rule, texts.empty);
  }

  void define(uint32_t rule) {
    const auto& [name, at, first, root, defined] = tree_.rules[rule];
    for (uint32_t node = first; node <= root && spend(1); ++node) expressions_[node] = expression(tree_.nodes[node]);
    if (rule_texts_[rule].longer && !pool_.failed()) pool_.define(rule, expressions_[root]);
  }

  ExprId expression(const RuleTree::Node& node) {
    switch (node.kind) {
      case Kind::kEmpty: return ExpressionPool::kEmpty;
      case Kind::kLiteral: return pool_.literal(tree_.literals[node.a]);
      case Kind::kSet:
        return spend(pool_.partition().n_classes() / 8) ? pool_.set(tree_.sets[node.a]) : ExpressionPool::kNothing;
      case Kind::kRegex: return regexes_[node.a].expression;
      case Kind::kRule: return reference(node.a);
      case Kind::kRepeat: return pool_.repeat(expressions_[node.a], node.b, node.c);
      case Kind::kConcat: {
        ExprId e = ExpressionPool::kEmpty;
        for (uint32_t i = node.b; i-- > node.a;) e = pool_.concat(expressions_[tree_.children[i]], e);
        return e;
      }
      case Kind::kEither: {
        std::vector<ExprId> ways;
        for (uint32_t i = node.a; i < node.b; ++i) ways.push_back(expressions_[tree_.children[i]]);
        return pool_.either(std::move(ways));
      }
    }
    return ExpressionPool::kNothing;
  }

  // ---- left recursion ----

  // Returns the rules that can match the beginning of a string that matches the expression.
  std::vector<uint32_t> first_rules(ExprId e) {
    std::vector<ExpressionPool::Beginning> ways;
    pool_.beginnings(e, false, ways);
    std::vector<uint32_t> rules;
    for (const auto& way : ways)
      if (const auto rule = pool_.as_rule(way.first)) rules.push_back(*rule);
    std::sort(rules.begin(), rules.end());
    rules.erase(std::unique(rules.begin(), rules.end()), rules.end());
    return rules;
  }

  // Finds the sets of mutually left-recursive rules (strongly connected components, Tarjan 1972) and solves each set.
  void solve_all() {
    std::vector<std::vector<uint32_t>> first(tree_.rules.size());
    for (const uint32_t rule : reached_)
      if (rule_texts_[rule].longer) first[rule] = first_rules(pool_.definition(rule));
    struct Step {
      uint32_t rule;
      size_t next;
    };
    std::vector<uint32_t> number(tree_.rules.size(), kNone), lowest(tree_.rules.size()), stack;
    std::vector<bool> on_stack(tree_.rules.size());
    uint32_t n = 0;
    std::vector<Step> path;
    const auto enter = [&](uint32_t rule) {
      number[rule] = lowest[rule] = n++;
      stack.push_back(rule);
      on_stack[rule] = true;
      path.push_back({rule, 0});
    };
    for (const uint32_t begin : reached_) {
      if (number[begin] == kNone) enter(begin);
      while (!path.empty()) {
        Step& step = path.back();
        const uint32_t rule = step.rule;
        if (step.next < first[rule].size()) {
          const uint32_t to = first[rule][step.next++];
          if (number[to] == kNone)
            enter(to);
          else if (on_stack[to])
            lowest[rule] = std::min(lowest[rule], number[to]);
          continue;
        }
        path.pop_back();
        if (!path.empty()) lowest[path.back().rule] = std::min(lowest[path.back().rule], lowest[rule]);
        if (lowest[rule] != number[rule]) continue;
        const auto from = std::find(stack.begin(), stack.end(), rule);
        const std::vector<uint32_t> together(from, stack.end());
        stack.erase(from, stack.end());
        for (const uint32_t one : together) on_stack[one] = false;
        if ((together.size() > 1 || std::ranges::binary_search(first[rule], rule)) && !solve(together)) return;
      }
    }
  }

  // Each rule has the form D_i = B_i | D_0 R_0i | D_1 R_1i | …, where B_i begins with none of the rules. The solution
  // is D = B R*, where R* is the star of a matrix of expressions, computed with Kleene's algorithm (Kleene 1956).
  bool solve(const std::vector<uint32_t>& rules) {
    const size_t n = rules.size();
    std::vector<uint32_t> index(tree_.rules.size(), kNone);
    for (uint32_t i = 0; i < n; ++i) index[rules[i]] = i;
    std::vector<std::vector<ExprId>> begins(n);
    std::vector<ExprId> star(n * n, ExpressionPool::kNothing);
    if (!spend(n * n)) return too_much(rules);
    for (size_t i = 0; i < n; ++i) {
      std::vector<ExpressionPool::Beginning> ways;
      pool_.beginnings(pool_.definition(rules[i]), true, ways);
      std::vector<std::vector<ExprId>> rests(n);
      for (const auto& [first, rest] : ways) {
        const auto rule = pool_.as_rule(first);
        if (rule && index[*rule] != kNone)
          rests[index[*rule]].push_back(rest);
        else
          begins[i].push_back(pool_.concat(rule ? pool_.non_empty(first) : first, rest));
      }
      for (size_t j = 0; j < n; ++j) star[j * n + i] = pool_.either(std::move(rests[j]));
      if (!spend(n)) return too_much(rules);
    }
    for (size_t k = 0; k < n; ++k) {
      const ExprId again = pool_.star(star[k * n + k]);
      const std::vector<ExprId> before = star;
      for (size_t i = 0; i < n; ++i) {
        const ExprId to_k = i == k ? again : pool_.concat(before[i * n + k], again);
        if (to_k == ExpressionPool::kNothing) continue;
        for (size_t j = 0; j < n && spend(1); ++j) {
          if (j == k)
            star[i * n + j] = to_k;
          else
            star[i * n + j] = pool_.either(i == k ? ExpressionPool::kNothing : before[i * n + j],
                                           pool_.concat(to_k, before[k * n + j]));
        }
      }
      if (pool_.failed()) return too_much(rules);
    }
    std::vector<ExprId> starts(n);
    for (size_t i = 0; i < n; ++i) starts[i] = pool_.either(std::move(begins[i]));
    for (size_t i = 0; i < n; ++i) {
      std::vector<ExprId> ways;
      if (rule_texts_[rules[i]].empty) ways.push_back(ExpressionPool::kEmpty);
      for (size_t j = 0; j < n && spend(1); ++j) ways.push_back(pool_.concat(starts[j], star[j * n + i]));
      const ExprId solved = pool_.either(std::move(ways));
      if (pool_.failed()) return too_much(rules);
      pool_.define(rules[i], solved);
    }
    return true;
  }

  bool too_much(const std::vector<uint32_t>& rules) {
    problem_ = "the rule \"" + tree_.rules[rules.front()].name + "\" is left-recursive" +
               (rules.size() == 1 ? "" : " through " + std::to_string(rules.size() - 1) + " others") +
               " in too many ways";
    return false;
  }

  const RuleTree& tree_;
  ExpressionPool& pool_;
  std::string& problem_;
  std::vector<uint32_t> reached_;
  struct RegexTexts {
    ExprId expression;
    Texts texts;
  };
  std::vector<RegexTexts> regexes_;
  std::vector<Texts> texts_, rule_texts_;  // Indexed by node and by rule, respectively.
  std::vector<ExprId> expressions_;        // Indexed by node.
};

}  // namespace

ExprId texts_of_rules(const RuleTree& tree, ExpressionPool& pool, std::string& problem) {
  return RuleBuilder(tree, pool, problem).run();
}

}  // namespace monolith::grammar
