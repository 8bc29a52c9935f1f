// Converts grammar rules to expressions, so that their texts are matched with derivatives like any other. Any set of
// rules is supported, including left recursion, which is eliminated by solving for what the rules begin with.
#pragma once

#include <string>

#include "text/grammar/expression.h"
#include "text/grammar/rule_text.h"

namespace monolith::grammar {

// Returns the expression for the rule named root. The pool's byte classes must already
// distinguish all characters that the tree's rules distinguish. If no text matches or the pool has failed, the function
// returns kNothing and sets `problem` to the reason.
ExprId texts_of_rules(const RuleTree& tree, ExpressionPool& pool, std::string& problem);

}  // namespace monolith::grammar
