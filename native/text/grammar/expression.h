// Regular expressions with intersection and complement over character classes, and with rules that name one another.
// They are hash-consed and stepped by derivatives (Brzozowski 1964): an expression is itself the state of its automaton,
// and states come into being as they are reached. Where rules nest, the concatenation that is left to read serves as the
// stack. Bounded by fuel: an expression that would grow past it is a failure, never a wrong answer. Not thread-safe: one
// compiled grammar, one thread at a time.
#pragma once

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
  static constexpr ExprId kNothing = 0;          // no text
  static constexpr ExprId kEmpty = 1;            // the empty text
  static constexpr ExprId kAnything = 2;         // every text
  static constexpr ExprId kFailed = UINT32_MAX;  // out of fuel

  // `partition` is frozen and outlives the pool. `most_nodes` bounds what it may ever hold.
  ExpressionPool(const CharPartition& partition, size_t most_nodes);

  ExprId set(const CodePointSet& set);
  ExprId character(uint32_t code_point);
  ExprId literal(std::string_view utf8);
  ExprId concat(ExprId first, ExprId then);
  ExprId either(ExprId a, ExprId b);
  ExprId either(std::vector<ExprId> parts);
  ExprId both(ExprId a, ExprId b);
  ExprId both(std::vector<ExprId> parts);
  ExprId negate(ExprId a);                                 // every other text
  ExprId repeat(ExprId a, uint32_t least, uint32_t most);  // most: or kUnbounded
  ExprId star(ExprId a) { return repeat(a, 0, kUnbounded); }
  // Decimal digits whose value, read on behind digits of remainder `value`, is a multiple of `modulus`; the empty
  // text too if `value` is 0. The partition has told the ten digits apart.
  ExprId remainder(uint32_t modulus, uint32_t value);
  // The empty text, marked: tells which of several alternatives was completed. Only at the end of alternatives
  // of an either(), not within both() or negate().
  ExprId tag(uint32_t value);

  // What define() says of the rule. Never within both() or negate(); some text fits it, and more than the empty one.
  ExprId rule(uint32_t index, bool nullable);
  // A rule's definition may begin with other rules as long as that leads back to none.
  void define(uint32_t index, ExprId definition);
  ExprId definition(uint32_t index) const { return definitions_[index]; }
  size_t n_rules() const { return definitions_.size(); }
  // Every text of a rule but the empty one.
  ExprId non_empty(ExprId rule);
  // How texts of `e` that are not empty begin: with something of `first`, which is a set, a rule or what non_empty() made
  // of one, and then `rest`. Without `rests` those are left out.
  struct Beginning {
    ExprId first, rest;
  };
  void beginnings(ExprId e, bool rests, std::vector<Beginning>& out);
  // The rule that the expression is, if it is one.
  std::optional<uint32_t> as_rule(ExprId e) const {
    return nodes_[e].kind == Kind::kRule ? std::optional(nodes_[e].a) : std::nullopt;
  }
  bool is_set(ExprId e) const { return nodes_[e].kind == Kind::kSet; }

  // What may follow after a character of the class. kFailed when out of fuel.
  ExprId derivative(ExprId e, CharClassId c);
  // Whether the whole text fits.
  bool fits(ExprId e, std::string_view utf8);
  bool nullable(ExprId e) const { return nodes_[e].nullable; }
  // Whether some text fits. Searched for and remembered; false when out of fuel (failed() tells).
  bool alive(ExprId e);
  // How many texts fit, up to `enough`; `enough` when out of fuel (failed() tells).
  uint64_t count(ExprId e, uint64_t enough);
  // The tags of the alternatives that are complete at `e`, ascending.
  void tags(ExprId e, std::vector<uint32_t>& out) const;
  // So many characters, whatever they are, surely leave something that can be completed; 0 if that is not seen at once.
  uint32_t free_characters(ExprId e) const;
  // The same where texts of repeated characters must not have a certain one within: so many cannot bring it about.
  uint32_t free_before(ExprId e) const;
  bool failed() const { return halt_ != Halt::kNone; }
  // Out of fuel, and nothing else: with more of it what failed can be asked again, and goes on from what was found.
  bool spent() const { return halt_ == Halt::kSpent; }
  void give_up() { halt_ = Halt::kFull; }
  void run_dry() {
    if (halt_ == Halt::kNone) halt_ = Halt::kSpent;
  }
  // What building and deriving may still cost.
  Fuel& fuel() { return fuel_; }
  void refuel(const Fuel& fuel) {
    fuel_ = fuel;
    if (spent()) halt_ = Halt::kNone;
  }
  // Keeps all nodes there are. Use may add up to `most_nodes` more; forget() removes those, and clears a failure.
  void keep(size_t most_nodes);
  void forget();
  // A copy of the nodes that use has added, taken before they are forgotten.
  struct Past;
  std::unique_ptr<Past> forget_into_past();
  // An expression of that time as one of now; kFailed when there is no room for it.
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
    // children: set index; first, then; [a, b) of lists_; negated; repeated, least, most; modulus, value; rule;
    // rule's expression; tag
    uint32_t a = 0, b = 0, c = 0;
  };
  enum class Life : uint8_t { kUnknown, kAlive, kDead };
  enum class Halt : uint8_t { kNone, kSpent, kFull };
  struct DigitCount {
    uint32_t least, most;
  };
  // A search for a text that fits, begun at `root`.
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

  static constexpr size_t kMostSearches = 8;  // kept
  static constexpr size_t kMostCounts = 64;   // of digits, compared at once

  const CharPartition& partition_;
  size_t most_nodes_;
  Fuel fuel_;
  size_t words_per_set_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> lists_;
  std::vector<uint64_t> sets_;  // bits of classes
  std::unordered_multimap<uint64_t, ExprId> by_hash_;
  std::unordered_multimap<uint64_t, uint32_t> sets_by_hash_;
  std::unordered_map<uint64_t, ExprId> derivatives_;  // e << 16 | class
  std::vector<Life> life_;
  std::vector<ExprId> definitions_;  // of rules
  int depth_ = 0;                    // of derivatives within one another
  Halt halt_ = Halt::kNone;
  std::vector<Search> searches_;  // that ran out of fuel, the latest last
  size_t kept_nodes_ = 0, kept_lists_ = 0, kept_sets_ = 0;
};

struct ExpressionPool::Past {
  size_t first_node, first_list, first_set;  // what was there before, and still is
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
