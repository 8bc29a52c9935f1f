// Regular expressions as JSON Schema has them (ECMA-262 with the u flag, found anywhere in the text unless
// anchored), parsed to a tree, then made an expression. No backtracking anywhere: what cannot be a finite
// automaton (back references, lookbehind) is refused by name. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/expression.h"

namespace monolith::grammar {

class Regex {
 public:
  static constexpr size_t kMostBytes = 16 * 1024;
  static constexpr int kDeepest = 128;
  static constexpr uint32_t kMostRepeats = 65'535;

  // On failure `error` says what at which byte; the regex must not be used then. `unsupported` tells a valid
  // construct that is not served from one that is no regular expression.
  struct Problem {
    std::string what;
    bool unsupported = false;
  };
  static bool parse(std::string_view pattern, Regex& out, Problem& problem);

  // Tells the partition which characters it treats differently.
  void separate(CharPartition& partition) const;
  // Every text that has a match of it somewhere.
  ExprId found_in(ExpressionPool& pool) const;
  // Every text that it matches from the first to the last character.
  ExprId whole(ExpressionPool& pool) const;

 private:
  friend class RegexParser;
  enum class Kind : uint8_t { kEmpty, kSet, kConcat, kEither, kRepeat, kStart, kEnd, kAhead, kNotAhead };
  struct Node {
    Kind kind;
    bool asserts = false;          // an anchor or a lookahead is within
    uint32_t a = 0, b = 0, c = 0;  // set index; children [a, b) of children_; repeated, least, most
  };
  ExprId build(ExpressionPool& pool, uint32_t node, ExprId rest, bool at_start) const;
  ExprId plain(ExpressionPool& pool, uint32_t node) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> children_;
  std::vector<CodePointSet> sets_;
  uint32_t root_ = 0;
};

}  // namespace monolith::grammar
