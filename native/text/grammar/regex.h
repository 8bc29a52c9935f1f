// Regular expressions in two dialects. A pattern is parsed into a tree and then converted to an expression. There is no
// backtracking. Constructs that no finite automaton can implement (back references) or that are not supported
// (lookbehind) are rejected with a specific error. The functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/expression.h"

namespace monolith::grammar {

enum class RegexDialect : uint8_t {
  kEcma,    // The dialect of JSON Schema: ECMA-262 with the u flag.
  kPython,  // The common subset of Python's re and Rust's regex: Unicode classes, flags, (?P<name>...), \A and \z.
};

struct RegexFlags {
  bool ignore_case = false;  // Supported for ASCII letters only.
  bool dot_all = false;      // A dot also matches a line break.
  bool multi_line = false;   // ^ and $ would match at line breaks, so they are rejected.
};

class Regex {
 public:
  static constexpr size_t kMaxBytes = 16 * 1024;
  static constexpr int kDeepest = 128;
  static constexpr uint32_t kMaxRepeats = 65'535;

  // On failure, `what` contains a description of the error and its byte offset, and the regex must not be used.
  // `unsupported` is true for a valid construct that is not supported, and false for an invalid pattern.
  struct Problem {
    std::string what;
    bool unsupported = false;
  };
  static bool parse(std::string_view pattern, Regex& out, Problem& problem, RegexDialect dialect = RegexDialect::kEcma,
                    RegexFlags flags = {});

  // Adds the characters that the pattern distinguishes to the partition.
  void separate(CharPartition& partition) const;
  // Returns the expression for every string that contains a match.
  ExprId found_in(ExpressionPool& pool) const;
  // Returns the expression for every string that matches as a whole.
  ExprId whole(ExpressionPool& pool) const;
  // Whether the pattern contains an anchor or a lookahead.
  bool asserts() const { return nodes_[root_].asserts; }
  // Total number of ranges in the pattern's character classes.
  size_t n_ranges() const;

 private:
  friend class RegexParser;
  enum class Kind : uint8_t { kEmpty, kSet, kConcat, kEither, kRepeat, kStart, kEnd, kAhead, kNotAhead };
  struct Node {
    Kind kind;
    bool asserts = false;          // The node contains an anchor or a lookahead.
    uint32_t a = 0, b = 0, c = 0;  // By kind: set index; children [a, b) of children_; operand, least, most.
  };
  ExprId build(ExpressionPool& pool, uint32_t node, ExprId rest, bool at_start) const;
  ExprId plain(ExpressionPool& pool, uint32_t node) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> children_;
  std::vector<CodePointSet> sets_;
  uint32_t root_ = 0;
};

}  // namespace monolith::grammar
