// Grammars written as rules, in the notation known as GBNF: `name ::= ...` with literals, character classes, groups,
// alternatives, repetitions and references, parsed to a tree. What the rules mean is rule_expressions.h's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/code_points.h"

namespace monolith::grammar {

struct RuleTree {
  static constexpr size_t kMostBytes = 64 * 1024;
  static constexpr int kDeepest = 128;  // groups within one another
  static constexpr uint32_t kMostRepeats = 65'535;

  enum class Kind : uint8_t { kEmpty, kLiteral, kSet, kConcat, kEither, kRepeat, kRule };
  struct Node {
    Kind kind;
    uint32_t a = 0, b = 0, c = 0;  // literal; set; children [a, b) of `children`; repeated, least, most; rule
  };
  // Its nodes are [first, root], each behind its children.
  struct Rule {
    std::string name;
    size_t at = 0;  // byte where it is first named
    uint32_t first = 0, root = 0;
    bool defined = false;
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> children;
  std::vector<std::string> literals;
  std::vector<CodePointSet> sets;
  std::vector<Rule> rules;
  uint32_t root = 0;  // the rule called root

  // On failure `problem` says what, at which line and column; the tree must not be used then.
  static bool parse(std::string_view text, RuleTree& out, std::string& problem);
  // Tells the partition which characters it treats differently.
  void separate(CharPartition& partition) const;
};

}  // namespace monolith::grammar
