// Parses the subset of Lark's grammar notation that can constrain text while it is generated character by character.
//
// A grammar matches the strings that Lark's default parser (Earley with the dynamic lexer) accepts: a character may
// belong to any terminal that fits. Priorities only select one of several parses of the same text, so they are accepted
// but have no effect. Likewise, aliases and the marks ? and ! before a rule have no effect. The terminals of %ignore
// may occur at the beginning and after each terminal of a rule.
//
// Supported: rules and terminals, strings and regular expressions with flags, ranges, groups, [optional] parts,
// repetitions (* + ? ~n ~n..m), %ignore, and %import of the terminals in `common`. Rejected with an error that names
// the feature: templates, other imports, %declare, %override, %extend, and anchors and lookarounds in regular
// expressions.
//
// Notation: https://lark-parser.readthedocs.io/en/stable/grammar.html
#pragma once

#include <string_view>

namespace monolith::grammar {

// Returns the regular expression of a terminal in Lark's library `common`, or an empty string if there is no such
// terminal. The expression also encodes the effect of Lark's non-greedy quantifiers: for example, ESCAPED_STRING ends
// at the first unescaped quotation mark.
std::string_view common_terminal(std::string_view name);

}  // namespace monolith::grammar
