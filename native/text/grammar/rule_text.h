// Parses grammars in GBNF notation into a tree: `name ::= ...` with literals, character classes, groups, alternatives,
// repetitions and references. rule_expressions.h converts the tree to expressions. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/code_points.h"

namespace monolith::grammar {

struct RuleTree {
  static constexpr size_t kMaxBytes = 64 * 1024;
  static constexpr int kDeepest = 128;  // Maximum nesting depth of groups.
  static constexpr uint32_t kMaxRepeats = 65'535;

  enum class Kind : uint8_t { kEmpty, kLiteral, kSet, kConcat, kEither, kRepeat, kRule };
  struct Node {
    Kind kind;
    uint32_t a = 0, b = 0, c = 0;  // By kind: literal; set; children [a, b) of `children`; operand, least, most; rule.
  };
  // A rule's nodes are [first, root]. Each node comes after its children.
  struct Rule {
    std::string name;
    size_t at = 0;  // Byte offset at which the rule is first named.
    uint32_t first = 0, root = 0;
    bool defined = false;
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> children;
  std::vector<std::string> literals;
  std::vector<CodePointSet> sets;
  std::vector<Rule> rules;
  uint32_t root = 0;  // Index of the rule named root.

  // On failure, `problem` describes the error with its line and column, and the tree must not be used.
  static bool parse(std::string_view text, RuleTree& out, std::string& problem);
  // Adds to the partition the characters that the rules distinguish.
  void separate(CharPartition& partition) const;
};

}  // namespace monolith::grammar
