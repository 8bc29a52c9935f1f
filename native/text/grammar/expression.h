// Regular expressions over character classes, with intersection, complement and (possibly recursive) rules. Expressions
// are hash-consed and advanced with Brzozowski derivatives (Brzozowski 1964): an expression is itself a state of its
// automaton, so states are created only as they are reached. For nested rules, the concatenation that remains to be
// matched serves as the stack.
//
// The pool is bounded by fuel and by a maximum number of nodes. Exceeding either is reported as a failure, never as a
// wrong result. The pool is not thread-safe: a compiled grammar is used by one thread at a time.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/fuel.h"

namespace monolith::grammar {

using ExprId = uint32_t;
inline constexpr uint32_t kUnbounded = UINT32_MAX;

class ExpressionPool {
 public:
  static constexpr ExprId kNothing = 0;          // Matches no text.
  static constexpr ExprId kEmpty = 1;            // Matches only the empty text.
  static constexpr ExprId kAnything = 2;         // Matches every text.
  static constexpr ExprId kFailed = UINT32_MAX;  // Out of fuel.

  // `partition` must be frozen and must outlive the pool. `most_nodes` is the maximum number of nodes.
  ExpressionPool(const CharPartition& partition, size_t most_nodes);

  ExprId set(const CodePointSet& set);
  ExprId character(uint32_t code_point);
  ExprId literal(std::string_view utf8);
  // Matches any of the strings, which may be in any order and may contain duplicates. Common prefixes and suffixes
  // share their nodes, so a long list takes no more time per character than a short one. Invalid UTF-8 matches nothing.
  ExprId literals(std::vector<std::string_view> texts);
  ExprId concat(ExprId first, ExprId then);
  ExprId either(ExprId a, ExprId b);
  ExprId either(std::vector<ExprId> parts);
  ExprId both(ExprId a, ExprId b);
  ExprId both(std::vector<ExprId> parts);
  ExprId negate(ExprId a);                                 // Complement: matches every string that `a` does not match.
  ExprId repeat(ExprId a, uint32_t least, uint32_t most);  // `most` may be kUnbounded.
  ExprId star(ExprId a) { return repeat(a, 0, kUnbounded); }
  // Matches the decimal digits that can be appended to a number with remainder `value` to make it a multiple of
  // `modulus`. Also matches the empty text if `value` is 0. In the partition, each of the ten digits must be a separate
  // class.
  ExprId remainder(uint32_t modulus, uint32_t value);
  // Matches the empty text and identifies which of several alternatives was completed. Allowed only at the end of an
  // alternative of either(), and not inside both() or negate().
  ExprId tag(uint32_t value);

  // Matches the expression that define() assigns to the rule. Not allowed inside negate(). The rule must match at least
  // one non-empty string. If a recursive rule is inside both(), alive() first tries the shortest string that the rule
  // matches. If that string does not match the other parts, the search may not terminate before the fuel runs out.
  ExprId rule(uint32_t index, bool nullable);
  // Defines a rule. The definition may begin with other rules, provided that these do not lead back to this rule.
  void define(uint32_t index, ExprId definition);
  ExprId definition(uint32_t index) const { return definitions_[index]; }
  size_t n_rules() const { return definitions_.size(); }
  // Matches every text of the rule except the empty text.
  ExprId non_empty(ExprId rule);
  // Lists the ways in which the non-empty strings that match `e` can begin. Each entry stands for a match of `first` (a
  // set, a rule, or the non_empty() of a rule) followed by a match of `rest`. If `rests` is false, `rest` is always
  // kEmpty.
  struct Beginning {
    ExprId first, rest;
  };
  void beginnings(ExprId e, bool rests, std::vector<Beginning>& out);
  // Returns the index of the rule if the expression is a rule.
  std::optional<uint32_t> as_rule(ExprId e) const {
    return nodes_[e].kind == Kind::kRule ? std::optional(nodes_[e].a) : std::nullopt;
  }
  bool is_set(ExprId e) const { return nodes_[e].kind == Kind::kSet; }

  // Returns the expression for the text that follows a character of class `c`. If the fuel runs out, returns kNothing,
  // and failed() is true.
  ExprId derivative(ExprId e, CharClassId c);
  // Returns whether the whole text matches `e`.
  bool fits(ExprId e, std::string_view utf8);
  bool nullable(ExprId e) const { return nodes_[e].nullable; }
  // Returns whether `e` matches any text. The answer is cached. Returns false if the fuel runs out (check failed()).
  bool alive(ExprId e);
  // Returns the number of strings that match, but at most `enough`. Returns `enough` if the fuel runs out (check
  // failed()).
  uint64_t count(ExprId e, uint64_t enough);
  // Sets `out` to the tags of the alternatives that are complete at `e`, in ascending order.
  void tags(ExprId e, std::vector<uint32_t>& out) const;
  // Returns a number n such that any n characters may come next and `e` can still be completed after them. Returns 0 if
  // cheap checks cannot prove this for any n.
  uint32_t free_characters(ExprId e) const;
  // Like free_characters(), but also covers repeated characters that must not contain a certain text. Any characters
  // are allowed as long as they are too few to complete this text.
  uint32_t free_before(ExprId e) const;
  bool failed() const { return halt_ != Halt::kNone; }
  // Whether the pool has run out of fuel but has not failed for another reason. After refuel(), the failed call can be
  // repeated and resumes where it stopped.
  bool spent() const { return halt_ == Halt::kOutOfBudget; }
  void give_up() { halt_ = Halt::kFull; }
  void run_dry() {
    if (halt_ == Halt::kNone) halt_ = Halt::kOutOfBudget;
  }
  // Remaining budget for building expressions and computing derivatives.
  Fuel& fuel() { return fuel_; }
  void refuel(const Fuel& fuel) {
    fuel_ = fuel;
    if (spent()) halt_ = Halt::kNone;
  }
  // keep() marks all existing nodes as permanent and allows up to `most_nodes` further nodes to be added. forget()
  // removes these further nodes and clears any failure.
  void keep(size_t most_nodes);
  void forget();
  // A copy of the nodes added since keep(). forget_into_past() makes this copy and then removes these nodes from the
  // pool.
  struct Past;
  std::unique_ptr<Past> forget_into_past();
  // Returns the expression of this pool that is equivalent to `e` in `past`, or kFailed if this pool has no room for
  // it.
  ExprId recall(Past& past, ExprId e);
  size_t bytes() const;
  size_t n_nodes() const { return nodes_.size(); }
  const CharPartition& partition() const { return partition_; }

 private:
  enum class Kind : uint8_t {
    kNothing,
    kEmpty,
    kAnything,
    kSet,
    kConcat,
    kEither,
    kBoth,
    kNegate,
    kRepeat,
    kRemainder,
    kRule,
    kNonEmpty,
    kTag
  };
  struct Node {
    Kind kind;
    bool nullable;
    // Meaning of a, b and c, by kind. Set: set index. Concat: first, then. Either, both: range [a, b) of lists_.
    // Negate: operand. Repeat: operand, least, most. Remainder: modulus, value. Rule: rule index. Non-empty: rule
    // expression. Tag: value.
    uint32_t a = 0, b = 0, c = 0;
  };
  enum class Life : uint8_t { kUnknown, kAlive, kDead };
  enum class Halt : uint8_t { kNone, kOutOfBudget, kFull };
  struct DigitCount {
    uint32_t least, most;
  };
  // The state of a depth-first search for a string that matches `root`.
  struct Search {
    struct Step {
      ExprId at;
      CharClassId next;
    };
    ExprId root;
    std::vector<Step> path;
    std::vector<ExprId> seen;
    std::unordered_set<ExprId> visited;
  };

  ExprId set_of_classes(const std::vector<uint64_t>& bits);
  ExprId intern(Node node, std::span<const uint32_t> list = {});
  ExprId fail() {
    give_up();
    return kNothing;
  }
  ExprId dry() {
    run_dry();
    return kNothing;
  }
  std::span<const uint32_t> list(const Node& node) const { return {lists_.data() + node.a, node.b - node.a}; }
  bool set_has(uint32_t set_index, CharClassId c) const {
    return sets_[set_index * words_per_set_ + c / 64] >> (c % 64) & 1;
  }
  ExprId compute(ExprId e, CharClassId c);
  ExprId derive_upwards(ExprId e, CharClassId c);
  bool knows_derivative(ExprId e, CharClassId c) const { return derivatives_.contains(uint64_t{e} << 16 | c); }
  bool repeats_for_ever(ExprId e) const {
    return nodes_[e].kind == Kind::kRepeat && nodes_[e].b == 0 && nodes_[e].c == kUnbounded;
  }
  void drop_covered(std::vector<ExprId>& ways);
  void drop_narrower(std::vector<ExprId>& ways);
  bool covers(ExprId wide, ExprId narrow) const;
  Life life_at_once(ExprId e) const;
  std::vector<DigitCount> count_digits(ExprId e, int depth, bool& exact) const;
  std::vector<DigitCount> count_digits(std::span<const ExprId> parts, int depth, bool& exact) const;
  bool digits_reach(const DigitCount& count, const Node& remainder) const;
  bool takes_every_digit(ExprId e) const;
  uint32_t shortest(ExprId e, int depth = 0) const;
  bool begins_without_digit(ExprId e) const;

  // Length and rule nesting depth of a shortest matching text; kNoTextSize if no matching text is known.
  struct TextSize {
    uint32_t length, depth;
    auto operator<=>(const TextSize&) const = default;
  };
  static constexpr TextSize kNoTextSize{UINT32_MAX, UINT32_MAX};
  using TextSizes = std::unordered_map<ExprId, TextSize>;  // Of expressions whose size has been computed.
  void find_rule_sizes();
  TextSize text_size(ExprId e, TextSizes& known, int depth = 0);
  bool append_shortest_text(ExprId e, TextSizes& known, std::vector<CharClassId>& out, int depth = 0);
  bool completes(ExprId both, TextSizes& known);
  bool completes_shortly(ExprId e);

  static constexpr size_t kMaxSearches = 8;  // Maximum number of interrupted searches to keep.
  static constexpr size_t kMaxCounts = 64;   // Maximum number of digit-count ranges to compare in one check.

  const CharPartition& partition_;
  size_t most_nodes_;
  Fuel fuel_;
  size_t words_per_set_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> lists_;
  std::vector<uint64_t> sets_;  // Bit sets over character classes.
  std::unordered_multimap<uint64_t, ExprId> by_hash_;
  std::unordered_multimap<uint64_t, uint32_t> sets_by_hash_;
  std::unordered_map<uint64_t, ExprId> derivatives_;  // Key: e << 16 | class.
  std::vector<Life> life_;
  std::vector<ExprId> definitions_;   // Indexed by rule.
  std::vector<TextSize> rule_sizes_;  // Indexed by rule; empty until first needed.
  int depth_ = 0;                     // Current recursion depth of derivative().
  Halt halt_ = Halt::kNone;
  std::vector<Search> searches_;  // Searches that ran out of fuel, most recent last.
  size_t kept_nodes_ = 0, kept_lists_ = 0, kept_sets_ = 0;
};

struct ExpressionPool::Past {
  size_t first_node, first_list, first_set;  // Start of the saved ranges. Everything below is still in the pool.
  std::vector<Node> nodes;
  std::vector<Life> life;
  std::vector<uint32_t> lists;
  std::vector<uint64_t> sets;
  std::unordered_map<ExprId, ExprId> recalled;
  size_t bytes() const {
    return nodes.size() * (sizeof(Node) + 1) + lists.size() * 4 + sets.size() * 8 + recalled.size() * 48;
  }
};

}  // namespace monolith::grammar
