// Parses grammars into a tree of rules, which rule_expressions.h converts to expressions. There are two notations. GBNF
// consists of rules `name ::= ...` with literals, character classes, groups, alternatives, repetitions and references.
// For Lark's notation, lark_text.h documents the supported subset. The functions have no side effects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/regex.h"

namespace monolith::grammar {

struct RuleTree {
  static constexpr size_t kMaxBytes = 64 * 1024;
  static constexpr size_t kLongestName = 200;  // Maximum bytes in the name of a rule.
  static constexpr int kDeepest = 128;         // Maximum nesting depth of groups.
  static constexpr uint32_t kMaxRepeats = 65'535;

  enum class Kind : uint8_t { kEmpty, kLiteral, kSet, kRegex, kConcat, kEither, kRepeat, kRule };
  struct Node {
    Kind kind;
    // Meaning of a, b and c, by kind: literal; set; regex; children [a, b) of `children`; operand, least, most; rule.
    uint32_t a = 0, b = 0, c = 0;
  };
  // A rule's nodes have the indices [first, root]. Each node comes after its children.
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
  std::vector<Regex> regexes;  // Without anchors and lookaheads.
  std::vector<Rule> rules;
  uint32_t root = 0;  // Index of the rule that the whole text must match.

  // On failure, `problem` describes the error and states its line and column, and the tree must not be used.
  static bool parse_gbnf(std::string_view text, RuleTree& out, std::string& problem);
  static bool parse_lark(std::string_view text, RuleTree& out, std::string& problem);

  uint32_t add(Node node);
  // Adds a concatenation or alternatives. If there is only one child, returns the child itself.
  uint32_t add_list(Kind kind, const std::vector<uint32_t>& parts);
  uint32_t add_literal(std::string text);
  uint32_t add_set(CodePointSet set);
  // Adds the characters that the rules distinguish to the partition.
  void separate(CharPartition& partition) const;
};

// Converts a byte offset to a position such as "line 3, column 7". Lines and columns are counted from 1. Columns count
// characters, not bytes.
std::string place_of(std::string_view text, size_t at);

}  // namespace monolith::grammar
