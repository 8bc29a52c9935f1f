// Converts grammar rules to expressions, so that derivatives can match rules like any other expression. Any set of
// rules is supported. Left recursion is eliminated by solving for the strings that the rules can begin with.
#pragma once

#include <string>

#include "text/grammar/expression.h"
#include "text/grammar/rule_text.h"

namespace monolith::grammar {

// Returns the expression for the root rule. The pool's partition must already distinguish all characters that the rules
// distinguish. If no text matches, or if the pool has failed, returns kNothing and sets `problem` to the reason.
ExprId texts_of_rules(const RuleTree& tree, ExpressionPool& pool, std::string& problem);

}  // namespace monolith::grammar
